"""The log of a simulated replica: the real one, on simulated files.

Owns an index of its batches apart from storage's own, for the invariants, and the time between the two halves of a
flush. Must not know Raft.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

from quorum_node.records.batches import CONTROL_FLAG, Batch, read_header, split_batches
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.segment import Segment
from quorum_node.storage.unsynced import Unsynced
from quorum_simulation.files.file_system import SimulatedFiles

Noted = tuple[int, int, int, int]
"""(base offset, end offset, epoch, CRC) of a batch."""


class SimulatedLog:
    """The driver's Log device over an opened log."""

    def __init__(
        self, log: SegmentedLog, files: SimulatedFiles, as_written: Callable[[Path], bytes]
    ) -> None:
        """`as_written`: a file as it is, but for what has rotted in it: the opening has not read every segment."""
        self._log = log
        self._files = files
        self._bases: list[int] = []
        self._batches: list[Noted] = []
        self._raw: list[bytes] = []
        self._places: list[tuple[Segment, int]] = []
        """Segment and the position where the batch ends."""
        self._solid = 0
        """So many batches were found durable."""
        self.changes_of_voters = 0
        """Counts what may change the voter sets that are in it: control batches that come, and whatever goes."""
        self._syncing: Unsynced | None = None
        self._synced_to = 0
        for segment in log.segments:
            self._note(as_written(segment.path), segment, 0)

    @property
    def start(self) -> SnapshotId:
        """The snapshot that the log begins behind."""
        return self._log.start

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def first_offset(self) -> int:
        """Of the first segment, which the start may lie within."""
        return self._log.segments[0].base_offset

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    # -- the driver's device

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        self._log.append(data, base_offset, end_offset, leader_epoch)
        segment = self._log.segments[-1]
        self._note(data, segment, segment.size_bytes - len(data))

    def truncate_to(self, end_offset: int) -> None:
        if end_offset <= self._log.segments[-1].base_offset:
            self._settle()  # segments are deleted: wait for a sync in progress
        self._log.truncate_to(end_offset)
        self._forget(bisect_right(self._bases, self._log.end_offset - 1), len(self._bases))

    def reset_to(self, id: SnapshotId) -> None:
        self._settle()
        self._log.reset_to(id)
        self._forget(0, len(self._bases))

    def delete_prefix(self, id: SnapshotId) -> None:
        self._log.delete_prefix(id)
        self._forget(0, bisect_right(self._bases, self._log.segments[0].base_offset - 1))

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        return self._log.read(start_offset, max_bytes, limit_offset)

    def read_checked(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        return self._log.read_checked(start_offset, max_bytes, limit_offset)

    def flush(self) -> int:
        """Everything written so far becomes durable, at once."""
        self._settle()
        return self._log.flush()

    # -- the flusher's part

    @property
    def has_unsynced(self) -> bool:
        """Whether a loss of power would take something away."""
        return self._syncing is not None or self.durable_end_offset() < self.end_offset

    def sync_begins(self) -> Unsynced:
        """A background sync starts."""
        assert self._syncing is None, "one at a time"
        self._syncing = self._log.take_unsynced()
        for segment in self._syncing.segments:
            self._files.begin_sync(segment.fd)
        return self._syncing

    def sync_ends(self) -> int:
        """It came back; how far the log is durable, as storage says."""
        self._settle()
        return self._synced_to

    def _settle(self) -> None:
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            self._synced_to = self._log.sync(syncing)

    def settle(self) -> None:
        """What is known of the synced end is durable."""
        self._log.settle()

    # -- for the invariants, which read also what is broken

    def durable_end_offset(self) -> int:
        """End offset of what would survive any crash."""
        segment, safe_bytes = None, 0
        while self._solid < len(self._places):
            place, stop = self._places[self._solid]
            if place is not segment:
                segment, safe_bytes = place, self._files.safe_bytes(place.path)
            if safe_bytes < stop:
                break
            self._solid += 1
        return self._batches[self._solid - 1][1] if self._solid else self.start_offset

    def batch_at(self, offset: int) -> Noted | None:
        """The batch that holds `offset`."""
        log = self._log
        if not log.start_offset <= offset < log.end_offset:
            return None
        return self._batches[bisect_right(self._bases, offset) - 1]

    def batches(self) -> list[Noted]:
        """All, oldest first."""
        return list(self._batches)

    def segment_paths(self) -> list[Path]:
        """Oldest first."""
        return [segment.path for segment in self._log.segments]

    def control_batches(self) -> list[tuple[Path, int]]:
        """File and position of each."""
        return [
            (segment.path, stop - len(raw))
            for raw, (segment, stop) in zip(self._raw, self._places, strict=True)
            if read_header(raw).attributes & CONTROL_FLAG
        ]

    def batches_from(self, offset: int) -> Iterator[Batch]:
        """Whole batches from the one that holds `offset`."""
        for index in range(bisect_right(self._bases, offset) - 1, len(self._raw)):
            yield from split_batches(self._raw[index])[0]

    # -- inside

    def _note(self, data: bytes, segment: Segment, position: int) -> None:
        start, size = 0, len(data)
        while start < size:
            header = read_header(data, start)
            stop = start + header.size_bytes
            base = header.base_offset
            self._bases.append(base)
            self._batches.append((base, header.end_offset, header.leader_epoch, header.crc))
            self._raw.append(data if stop - start == size else data[start:stop])
            self._places.append((segment, position + stop))
            if header.attributes & CONTROL_FLAG:
                self.changes_of_voters += 1
            start = stop

    def _forget(self, first: int, stop: int) -> None:
        self.changes_of_voters += 1
        for known in (self._bases, self._batches, self._raw, self._places):
            del known[first:stop]
        self._solid = max(0, self._solid - stop) if first == 0 else min(self._solid, first)
