"""What the tests of storage share."""

import os

import pytest


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncs do nothing: kill -9 keeps what was written, and hundreds of reopened logs stay fast.

    What must be synced, and when, is shown in test_sync_order.py.
    """
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda fd: None)
