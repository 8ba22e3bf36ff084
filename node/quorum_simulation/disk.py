"""One replica's part of a simulated machine's disk: the place of its files, and its durable content.

Owns copies of the frozen snapshots from when they became durable, for comparison, and the duration of a sync. Must
not know Raft. The files themselves are written and read by the real storage code (`files/`).
"""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from uuid import UUID

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.partition_directory import partition_directory
from quorum_node.storage.quorum_state import FILE_NAME as QUORUM_STATE
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.snapshots import SnapshotStore
from quorum_simulation.files.file_system import SimulatedFiles
from quorum_simulation.files.stored_file import torn_tail
from quorum_simulation.machine import DATA, Machine


@dataclass(frozen=True, slots=True)
class FrozenSnapshot:
    """A verified snapshot, with the content of its control records."""

    data: bytes
    bounds: SnapshotBounds


@dataclass(slots=True)
class SimulatedDisk:
    """Survives restarts of its host; its health is the machine's."""

    random: Random
    machine: Machine
    number: int
    """Number of the partition."""
    snapshots: dict[SnapshotId, FrozenSnapshot] = field(default_factory=dict)
    set_aside: dict[SnapshotId, FrozenSnapshot] = field(default_factory=dict)
    """Damaged snapshots with their former content, which a running replica still has in memory."""

    directory: Path = field(init=False)
    """Directory of the replica's files."""

    def __post_init__(self) -> None:
        self.directory = partition_directory(DATA, self.number)
        self.machine.files.torn = lambda content, durable: self._torn(content, durable)

    def _torn(self, content: bytearray, durable: int) -> bytes | bytearray:
        """Content after a power failure of a file that was appended to since it had `durable` bytes."""
        return bytes(content[:durable]) + torn_tail(content, b"", durable, self.random)

    @property
    def broken(self) -> bool:
        """Whether the disk has failed permanently."""
        return self.machine.disk_broken

    @property
    def full(self) -> bool:
        """Whether the disk is full."""
        return self.machine.disk_full

    @property
    def failure_seen(self) -> bool:
        """Whether the running process got an error of the failed disk."""
        return self.machine.files.refused

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """Id of the newest snapshot."""
        return max(self.snapshots, default=None)

    def sync_took_ms(self) -> float:
        """Duration of this sync: usually a fraction of a millisecond, sometimes long."""
        delay_ms = 0.2 + self.random.random() * 0.6 + self.machine.sync_delay_ms
        return delay_ms * 10 if self.random.random() < 0.02 else delay_ms

    def look(self, store: SnapshotStore) -> None:
        """Record the snapshots that a process has found."""
        self.snapshots = {each: self.frozen(each) for each in store.ids()}

    def frozen(self, id: SnapshotId) -> FrozenSnapshot:
        """Return the snapshot on the disk. Raises KeyError if it would not survive a power failure."""
        path = self.directory / id.file_name
        data = self.machine.files.durable_content(path)
        if data is None:
            raise KeyError(f"{id} is not durable")
        if self.machine.is_rotten:
            # it may be an older one, which is never read at a start
            data = self.machine.as_written(path)
        known = self.snapshots.get(id)
        if known is not None and known.data == data:
            return known
        try:
            return FrozenSnapshot(data, _bounds_of(id, data))
        except CorruptSnapshot as error:
            raise AssertionError(f"a damaged snapshot {id} has its name: {error}") from error

    @property
    def lacks_the_beginning(self) -> bool:
        """Whether no valid snapshot covers the deleted part of the log, because the only one is damaged."""
        log = self.machine.replicas[self.number].log
        first_offset = log.first_offset
        return first_offset > 0 and not any(
            each.end_offset >= first_offset for each in self.snapshots
        )

    def durable_state(self, uuid: UUID) -> QuorumState | None:
        """Content of quorum-state after any power failure."""
        content = self.machine.files.durable_content(self.directory / QUORUM_STATE)
        if content is None:
            return None
        kept = SimulatedFiles(Random(0))
        kept.restore({str(self.directory): {QUORUM_STATE: content}})
        return QuorumStateFile(self.directory, uuid, kept).load()


@lru_cache(maxsize=64)
def _bounds_of(id: SnapshotId, data: bytes) -> SnapshotBounds:
    """Cached, because replicas often write the same snapshots."""
    reader = SnapshotReader(id)
    reader.feed(data)
    return reader.finish()
