"""A replica without snapshots: it serves none and is never told to fetch one.

Stands where a driver needs its Snapshots device and there is none. Must not be asked to write.
"""

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import StorageFailure


class NoSnapshots:
    """The Snapshots device of `driver.py`, empty."""

    def size_bytes(self, id: SnapshotId) -> int | None:
        """There is none."""
        return None

    def checksum(self, id: SnapshotId) -> int | None:
        """There is none."""
        return None

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """There is none."""
        raise StorageFailure(f"there is no snapshot {id}")

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        """Not possible here."""
        raise StorageFailure(f"this replica can't store snapshot {id}")

    def drop_partial(self, id: SnapshotId) -> None:
        """Nothing is there."""

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        """Not possible here."""
        raise StorageFailure(f"this replica can't store snapshot {id}")
