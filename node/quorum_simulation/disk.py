"""One replica's part of a simulated machine's disk: where its files are, and what is on it for certain.

Owns the frozen snapshots as they were when they became durable, for whoever compares, and how long a sync takes. Must
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
    """A verified one, with what its control records say."""

    data: bytes
    bounds: SnapshotBounds


@dataclass(slots=True)
class SimulatedDisk:
    """Survives restarts of its host; its health is the machine's."""

    random: Random
    machine: Machine
    number: int
    """Of the partition."""
    snapshots: dict[SnapshotId, FrozenSnapshot] = field(default_factory=dict)
    set_aside: dict[SnapshotId, FrozenSnapshot] = field(default_factory=dict)
    """As they were before they were found damaged: a running replica still knows what was in them."""

    directory: Path = field(init=False)
    """Where the replica's files are."""

    def __post_init__(self) -> None:
        self.directory = partition_directory(DATA, self.number)
        self.machine.files.torn = lambda content, durable: self._torn(content, durable)

    def _torn(self, content: bytearray, durable: int) -> bytes | bytearray:
        """What a loss of power leaves of a file that was appended to since it had `durable` bytes."""
        return bytes(content[:durable]) + torn_tail(content, b"", durable, self.random)

    @property
    def broken(self) -> bool:
        """For good."""
        return self.machine.disk_broken

    @property
    def full(self) -> bool:
        """Until it is mended."""
        return self.machine.disk_full

    @property
    def failure_seen(self) -> bool:
        """Whether the process that runs was told that the disk has failed."""
        return self.machine.files.refused

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest one."""
        return max(self.snapshots, default=None)

    def sync_took_ms(self) -> float:
        """How long this sync takes: mostly a fraction of a millisecond, sometimes long."""
        delay_ms = 0.2 + self.random.random() * 0.6 + self.machine.sync_delay_ms
        return delay_ms * 10 if self.random.random() < 0.02 else delay_ms

    def look(self, store: SnapshotStore) -> None:
        """Which snapshots a process has found."""
        self.snapshots = {each: self.frozen(each) for each in store.ids()}

    def frozen(self, id: SnapshotId) -> FrozenSnapshot:
        """As it is on the disk. Raises KeyError if it would not survive a loss of power."""
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
        """Whether no whole snapshot holds what was deleted of the log: the only one was damaged, and there is no other yet."""
        log = self.machine.replicas[self.number].log
        first_offset = log.first_offset
        return first_offset > 0 and not any(
            each.end_offset >= first_offset for each in self.snapshots
        )

    def durable_state(self, uuid: UUID) -> QuorumState | None:
        """quorum-state as any loss of power leaves it."""
        content = self.machine.files.durable_content(self.directory / QUORUM_STATE)
        if content is None:
            return None
        kept = SimulatedFiles(Random(0))
        kept.restore({str(self.directory): {QUORUM_STATE: content}})
        return QuorumStateFile(self.directory, uuid, kept).load()


@lru_cache(maxsize=64)
def _bounds_of(id: SnapshotId, data: bytes) -> SnapshotBounds:
    """Replicas often write the same snapshots."""
    reader = SnapshotReader(id)
    reader.feed(data)
    return reader.finish()
