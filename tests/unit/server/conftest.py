"""Fixtures of the tests of the server."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _default_logging_afterwards() -> Iterator[None]:
    """`configure_logging` keeps the stdout of its test, which is closed when other tests log."""
    yield
    structlog.reset_defaults()
