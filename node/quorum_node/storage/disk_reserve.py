"""Compares the free space of the data directory with `metadata.log.reserve.bytes`.

The leader refuses appends below the reserve, so there is always space for quorum-state, voter
changes and a graceful stop. Hysteresis keeps the state from flapping.
"""

import os
from pathlib import Path

from quorum_node.storage.errors import storage_errors

_HYSTERESIS = 1.1


class DiskReserve:
    """Measures on request; has no timer of its own."""

    def __init__(self, directory: Path, reserve_bytes: int) -> None:
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self.free_bytes = 0
        self.low = False

    @property
    def above_reserve_bytes(self) -> int:
        """Bytes that could be written above the reserve at the last measurement."""
        return self.free_bytes - self._reserve_bytes

    def measure(self) -> bool:
        """Update `free_bytes` and `low`; True when `low` changed. Raises StorageFailure."""
        with storage_errors(f"measure free space of {self._directory}"):
            stat = os.statvfs(self._directory)
        self.free_bytes = stat.f_bavail * stat.f_frsize
        limit = self._reserve_bytes * (_HYSTERESIS if self.low else 1.0)
        before, self.low = self.low, self.free_bytes < limit
        return self.low != before
