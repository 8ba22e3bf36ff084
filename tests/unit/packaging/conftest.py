"""helm, where it is at hand; `make helm-lint` and the end-to-end tests see to it that it is."""

from pathlib import Path

import pytest

from support import chart


@pytest.fixture(scope="session")
def helm() -> Path:
    found = chart.helm_at_hand()
    if found is None:
        pytest.skip("no helm on PATH, and none built yet (make helm-lint builds it)")
    return found
