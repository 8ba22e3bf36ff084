"""A simulated disk: raw bytes, and what of them survives a crash.

Owns log bytes and quorum-state of one replica, the difference between written and durable, and the
ways a disk fails. Must not know Raft. What a crash leaves is read back with the real recovery code.

A crash keeps what was synced. Of what was not, a random prefix may be there, perhaps followed by
zeros in place of sectors that never arrived; a truncation that was not synced may be undone.
"""

from bisect import bisect_right
from random import Random

from quorum_node.raft.log_state import LogState
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import HEADER_BYTES, BatchHeader, read_header
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.recovery import scan_segment

SECTOR_BYTES = 512


class SimulatedDisk:
    """Survives restarts of its host. `broken` is for good; `full` can be mended."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.content = bytearray()
        self.durable_bytes = 0
        self.before_truncation: bytes | None = None
        self.state: QuorumState | None = None
        self.broken = False
        self.failure_seen = False
        self.full = False
        self.sync_delay_ms = 0.0

    def sync_took_ms(self) -> float:
        """How long this sync takes: mostly a fraction of a millisecond, sometimes long."""
        delay_ms = 0.2 + self._random.random() * 0.6 + self.sync_delay_ms
        return delay_ms * 10 if self._random.random() < 0.02 else delay_ms

    def crash(self) -> None:
        """Power is gone: forget what was never synced, in one of the ways a disk may."""
        random = self._random
        if self.before_truncation is not None and random.random() < 0.5:
            self.content = bytearray(self.before_truncation)
        else:
            durable = min(self.durable_bytes, len(self.content))
            unsynced = len(self.content) - durable
            kept = durable + (random.randint(0, unsynced) if random.random() < 0.7 else 0)
            torn = bytearray(self.content[:kept])
            if kept < len(self.content) and random.random() < 0.3:
                sector_end = -(-kept // SECTOR_BYTES) * SECTOR_BYTES
                if kept == sector_end:
                    torn += bytes(len(self.content) - kept)
            self.content = torn
        self.before_truncation = None
        self.durable_bytes = 0

    def save_state(self, state: QuorumState) -> None:
        """Temp file, fsync, rename, fsync: all or nothing."""
        self.check()
        self.state = state

    def check(self) -> None:
        """Every access fails once the disk is broken."""
        if self.broken:
            self.failure_seen = True
            raise StorageFailure("simulated EIO")


class SimulatedLog:
    """The Log protocol over a simulated disk; opening it recovers what a crash left."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self._disk = disk
        self._bases: list[int] = []
        self._batches: list[tuple[int, int, int, int]] = []
        self._positions: list[int] = []
        self._cut_bytes = 1 << 62
        self.start_offset = 0
        scan = scan_segment(bytes(disk.content), 0, -1, "simulated log")
        del disk.content[scan.valid_bytes :]
        disk.durable_bytes = len(disk.content)
        disk.before_truncation = None
        self.end_offset = scan.end_offset
        self.recovered = LogState(
            NO_SNAPSHOT, scan.end_offset, scan.epoch_starts, scan.control_batches
        )
        position = 0
        while position < len(disk.content):
            header = read_header(bytes(disk.content[position : position + HEADER_BYTES]))
            self._note(header, position)
            position += header.size_bytes

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
        self._cut_bytes = min(self._cut_bytes, size)
        del disk.content[size:]
        del self._bases[keep:]
        del self._positions[keep:]
        del self._batches[keep:]
        self.end_offset = self._end_of(keep - 1) if keep else 0

    def reset_to(self, id: SnapshotId) -> None:
        raise StorageFailure(f"no snapshot {id}")

    def delete_prefix(self, id: SnapshotId) -> None:
        raise StorageFailure(f"no snapshot {id}")

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        if start_offset >= min(limit_offset, self.end_offset):
            return b""
        self._disk.check()
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
        disk.before_truncation = None
        return self.end_offset

    def sync_begins(self) -> int:
        """A background sync starts; returns how many bytes it covers."""
        self._cut_bytes = 1 << 62
        return len(self._disk.content)

    def synced(self, size_bytes: int) -> None:
        """A background sync of the first `size_bytes` came back; less if cut off meanwhile."""
        disk = self._disk
        disk.check()
        disk.durable_bytes = max(disk.durable_bytes, min(size_bytes, self._cut_bytes))
        disk.before_truncation = None

    def durable_end_offset(self) -> int:
        """End offset of what would survive any crash."""
        keep = bisect_right(self._positions, self._disk.durable_bytes - 1)
        while keep and self._stop_of(keep - 1) > self._disk.durable_bytes:
            keep -= 1
        return self._end_of(keep - 1) if keep else 0

    def batch_at(self, offset: int) -> tuple[int, int, int, int] | None:
        """(base offset, end offset, epoch, CRC) of the batch that holds `offset`."""
        if not 0 <= offset < self.end_offset:
            return None
        return self._batches[bisect_right(self._bases, offset) - 1]

    def _note(self, header: BatchHeader, position: int) -> None:
        self._bases.append(header.base_offset)
        self._positions.append(position)
        self._batches.append(
            (header.base_offset, header.end_offset, header.leader_epoch, header.crc)
        )

    def _end_of(self, index: int) -> int:
        return self._batches[index][1]

    def _stop_of(self, index: int) -> int:
        if index + 1 < len(self._positions):
            return self._positions[index + 1]
        return len(self._disk.content)
