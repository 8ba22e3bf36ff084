"""The unsynced part of a log, as input of a sync."""

from typing import NamedTuple

from quorum_node.storage.errors import storage_errors, unless_full
from quorum_node.storage.segment import Segment


class Unsynced(NamedTuple):
    """Data written, and segments created and rolled over, since the last sync."""

    end_offset: int
    segments: set[Segment]
    names: bool
    to_seal: list[tuple[Segment, int]]
    epoch: int
    """Epoch of the record before `end_offset`; -1: there is none."""
    generation: int
    """See `SyncedEnd`."""

    def oldest_first(self) -> list[Segment]:
        """The segments in the order of the log."""
        return sorted(self.segments, key=lambda segment: segment.base_offset)

    def seal(self) -> None:
        """Seal the segments that were rolled over and are synced now. Raises StorageFailure, DiskFull."""
        for segment, end_offset in self.to_seal:
            # On a full disk there is no seal; the next start then has to read the segment.
            with unless_full(), storage_errors(f"seal {segment.path}"):
                segment.seal(end_offset)
            segment.closed = True
