"""What was written to a log and not synced yet, as a sync takes it over. Owns nothing."""

from typing import NamedTuple

from quorum_node.storage.errors import storage_errors, unless_full
from quorum_node.storage.segment import Segment


class Unsynced(NamedTuple):
    """What was written, named and rolled over since the sync before."""

    end_offset: int
    segments: set[Segment]
    names: bool
    to_seal: list[tuple[Segment, int]]
    epoch: int
    """Of the record before `end_offset`; -1: there is none."""
    generation: int
    """See `SyncedEnd`."""

    def oldest_first(self) -> list[Segment]:
        """The segments in the order of the log."""
        return sorted(self.segments, key=lambda segment: segment.base_offset)

    def seal(self) -> None:
        """Seal what was rolled over and is synced now. Raises StorageFailure, DiskFull."""
        for segment, end_offset in self.to_seal:
            # On a full disk there is no seal: the next start reads the segment, that is all.
            with unless_full(), storage_errors(f"seal {segment.path}"):
                segment.seal(end_offset)
            segment.closed = True
