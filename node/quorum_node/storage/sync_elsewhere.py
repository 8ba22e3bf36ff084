"""Interface of an fdatasync that runs outside of the caller's thread."""

from typing import Protocol


class SyncElsewhere(Protocol):
    """At most one at a time."""

    def submit(self, fd: int) -> None:
        """Begin a sync of this open file. It stays open until `wait` has returned."""

    def wait(self) -> int:
        """Wait for the sync that was begun; returns its errno, 0 on success."""
