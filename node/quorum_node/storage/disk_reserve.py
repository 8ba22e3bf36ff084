"""Free space of the data directory against `metadata.log.reserve.bytes`.

The leader refuses appends below the reserve, so that a full disk stays a matter of more space:
there is room left for quorum-state, voter changes and an orderly stop. A little hysteresis keeps
the answer from flapping.
"""

import os
from pathlib import Path

from quorum_node.storage.errors import storage_errors

_HYSTERESIS = 1.1


class DiskReserve:
    """Measures when asked; owns no timer."""

    def __init__(self, directory: Path, reserve_bytes: int) -> None:
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self.free_bytes = 0
        self.low = False

    @property
    def above_reserve_bytes(self) -> int:
        """What may still be written without touching the reserve, when it was last measured."""
        return self.free_bytes - self._reserve_bytes

    def measure(self) -> bool:
        """Update `free_bytes` and `low`; True when `low` changed. Raises StorageFailure."""
        with storage_errors(f"measure free space of {self._directory}"):
            stat = os.statvfs(self._directory)
        self.free_bytes = stat.f_bavail * stat.f_frsize
        limit = self._reserve_bytes * (_HYSTERESIS if self.low else 1.0)
        before, self.low = self.low, self.free_bytes < limit
        return self.low != before
