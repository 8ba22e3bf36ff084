"""An fdatasync that runs beside the caller, as the log needs it. Owns nothing."""

from typing import Protocol


class SyncElsewhere(Protocol):
    """At most one at a time."""

    def submit(self, fd: int) -> None:
        """Begin a sync of this open file. It stays open until `wait` has returned."""

    def wait(self) -> int:
        """The errno of the sync that was begun, 0 if it made everything durable. Waits for it."""
