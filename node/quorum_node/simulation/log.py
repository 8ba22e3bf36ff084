"""The log on a simulated disk: the driver's Log device, and what opening it makes of a crash.

Owns positions of batches in the disk's bytes. Must not know Raft. Recovery is the real one.
"""

from bisect import bisect_right
from collections.abc import Iterator

from quorum_node.raft.log_state import EpochStarts, LogState
from quorum_node.records.batches import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    read_header,
    split_batches,
)
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.simulation.disk import SimulatedDisk, UnsyncedStart
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.recovery import SegmentScan, scan_segment

_EVERYTHING = 1 << 62


class SimulatedLog:
    """The Log protocol over a simulated disk; opening it recovers what a crash left."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._bases: list[int] = []
        self._batches: list[tuple[int, int, int, int]] = []
        self._positions: list[int] = []
        self._gone_bytes = 0
        self._cut_bytes = _EVERYTHING
        self.end_offset = 0
        self.is_open = False
        self.recovered = self._open()
        self.is_open = True

    @property
    def start(self) -> SnapshotId:
        """The snapshot that the log begins behind."""
        return self._disk.start

    @property
    def start_offset(self) -> int:
        return self._disk.start.end_offset

    # -- the driver's device

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        disk = self._disk
        disk.check()
        if disk.full:
            raise DiskFull("simulated ENOSPC")
        assert base_offset == self.end_offset, f"append at {base_offset}, end {self.end_offset}"
        self._note(read_header(data), len(disk.content))
        disk.content += data
        self.end_offset = end_offset

    def truncate_to(self, end_offset: int) -> None:
        disk = self._disk
        disk.check()
        if end_offset >= self.end_offset:
            return
        keep = bisect_right(self._bases, end_offset - 1)
        while keep and self._end_of(keep - 1) > end_offset:
            keep -= 1
        size = self._positions[keep] if keep < len(self._positions) else len(disk.content)
        if size < disk.durable_bytes:
            if disk.before_truncation is None:
                disk.before_truncation = bytes(disk.content[: disk.durable_bytes])
            disk.durable_bytes = size
        self._cut_bytes = min(self._cut_bytes, self._gone_bytes + size)
        del disk.content[size:]
        self._forget(keep, len(self._bases))
        self.end_offset = self._end_of(keep - 1) if keep else self.start_offset

    def reset_to(self, id: SnapshotId) -> None:
        disk = self._disk
        disk.check()
        durable = disk.before_truncation or bytes(disk.content[: disk.durable_bytes])
        disk.synced()
        disk.unsynced_start = UnsyncedStart(disk.start, durable, behind=False)
        self._gone_bytes += len(disk.content)
        self._cut_bytes = self._gone_bytes
        disk.content.clear()
        disk.durable_bytes = 0
        disk.start = id
        self._forget(0, len(self._bases))
        self.end_offset = id.end_offset

    def delete_prefix(self, id: SnapshotId) -> None:
        disk = self._disk
        disk.check()
        drop = bisect_right(self._bases, id.end_offset - 1)
        assert not drop or self._end_of(drop - 1) <= id.end_offset, f"{id} ends within a batch"
        size = self._positions[drop] if drop < len(self._positions) else len(disk.content)
        assert size <= disk.durable_bytes, f"{id} is more than what is durable of the log"
        if disk.before_truncation is not None:
            disk.before_truncation = disk.before_truncation[size:]
        disk.unsynced_start = UnsyncedStart(disk.start, bytes(disk.content[:size]), behind=True)
        del disk.content[:size]
        disk.durable_bytes -= size
        disk.start = id
        self._gone_bytes += size
        self._forget(0, drop)
        self._positions = [position - size for position in self._positions]

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        if start_offset >= min(limit_offset, self.end_offset):
            return b""
        self._disk.check()
        assert start_offset >= self.start_offset, f"read at {start_offset} below the log's start"
        first = bisect_right(self._bases, start_offset) - 1
        start = self._positions[first]
        last = bisect_right(self._bases, limit_offset - 1)
        stop = self._positions[last] if last < len(self._positions) else len(self._disk.content)
        if stop - start > max_bytes:
            last = max(first + 1, bisect_right(self._positions, start + max_bytes) - 1)
            stop = self._positions[last] if last < len(self._positions) else len(self._disk.content)
        return bytes(self._disk.content[start:stop])

    def flush(self) -> int:
        """Everything written so far becomes durable, at once."""
        disk = self._disk
        disk.check()
        disk.durable_bytes = len(disk.content)
        disk.synced()
        return self.end_offset

    # -- the flusher's part

    def sync_begins(self) -> int:
        """A background sync starts; returns how far it reaches, counted from the first byte ever."""
        self._cut_bytes = _EVERYTHING
        return self._gone_bytes + len(self._disk.content)

    def synced(self, size_bytes: int) -> None:
        """A background sync that reaches so far came back; less if cut off meanwhile."""
        disk = self._disk
        disk.check()
        reached = min(size_bytes, self._cut_bytes) - self._gone_bytes
        disk.durable_bytes = max(disk.durable_bytes, reached)
        disk.synced()

    # -- for the invariants, which read also what is broken

    def durable_end_offset(self) -> int:
        """End offset of what would survive any crash."""
        keep = bisect_right(self._positions, self._disk.durable_bytes - 1)
        while keep and self._stop_of(keep - 1) > self._disk.durable_bytes:
            keep -= 1
        return self._end_of(keep - 1) if keep else self.start_offset

    def batch_at(self, offset: int) -> tuple[int, int, int, int] | None:
        """(base offset, end offset, epoch, CRC) of the batch that holds `offset`."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self._batches[bisect_right(self._bases, offset) - 1]

    def batches_from(self, offset: int) -> Iterator[Batch]:
        """Whole batches from the one that holds `offset`."""
        first = bisect_right(self._bases, offset) - 1
        if offset < self.end_offset:
            yield from split_batches(bytes(self._disk.content[self._positions[first] :]))[0]

    # -- inside

    def _open(self) -> LogState:
        disk = self._disk
        latest = disk.latest_snapshot
        scan = self._scan()
        if latest is not None and latest != disk.start:
            # What stood before the log's start is gone, or it was left in the middle of a reset.
            if not _holds(scan, disk.start, latest):
                disk.content.clear()
                disk.start = latest
                scan = self._scan()
            elif disk.start not in disk.snapshots and disk.start != NO_SNAPSHOT:
                self._index(scan)
                disk.durable_bytes = len(disk.content)
                self.delete_prefix(latest)
                scan = self._scan()
        if disk.start != NO_SNAPSHOT and latest is None:
            raise StorageFailure(f"the log begins behind snapshot {disk.start}, which is not there")
        self._index(scan)
        disk.durable_bytes = len(disk.content)
        disk.synced()
        bounds = disk.snapshots[latest].bounds if latest is not None else None
        partial = next(((found, len(data)) for found, data in disk.partials.items()), None)
        return LogState(
            disk.start,
            scan.end_offset,
            scan.epoch_starts,
            scan.control_batches,
            latest,
            bounds.voters if bounds is not None else None,
            bounds.kraft_version if bounds is not None else 1,
            partial,
        )

    def _scan(self) -> SegmentScan:
        disk = self._disk
        content = bytes(disk.content)
        scan = scan_segment(content, disk.start.end_offset, -1, "simulated log")
        del disk.content[scan.valid_bytes :]
        return scan

    def _index(self, scan: SegmentScan) -> None:
        self._forget(0, len(self._bases))
        self.end_offset = scan.end_offset
        position = 0
        while position < len(self._disk.content):
            header = read_header(bytes(self._disk.content[position : position + HEADER_BYTES]))
            self._note(header, position)
            position += header.size_bytes

    def _note(self, header: BatchHeader, position: int) -> None:
        self._bases.append(header.base_offset)
        self._positions.append(position)
        self._batches.append(
            (header.base_offset, header.end_offset, header.leader_epoch, header.crc)
        )

    def _forget(self, first: int, stop: int) -> None:
        del self._bases[first:stop]
        del self._positions[first:stop]
        del self._batches[first:stop]

    def _end_of(self, index: int) -> int:
        return self._batches[index][1]

    def _stop_of(self, index: int) -> int:
        if index + 1 < len(self._positions):
            return self._positions[index + 1]
        return len(self._disk.content)


def _holds(scan: SegmentScan, start: SnapshotId, snapshot: SnapshotId) -> bool:
    """Whether the log has the last record of a snapshot."""
    if not start.end_offset < snapshot.end_offset <= scan.end_offset:
        return False
    epochs = EpochStarts(scan.epoch_starts, start)
    return epochs.epoch_at(snapshot.end_offset - 1) == snapshot.epoch
