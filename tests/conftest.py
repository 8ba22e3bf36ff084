"""Plugins of our own; they live in tests/support, where they are typed and linted like the rest."""

import gc
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("support")

pytest_plugins = [
    "support.requirement_plugin",
    "support.stages",
    "support.long_run",
    "support.warm_start",
    "support.example_profiles",
]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Without garbage collection: almost all objects that collecting creates are kept, and the searches took a fifth of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
