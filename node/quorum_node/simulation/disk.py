"""A simulated disk: raw bytes, and what of them survives a crash.

Owns log bytes, snapshots and quorum-state of one replica, the difference between written and durable,
and the ways a disk fails. Must not know Raft. What a crash leaves is read back with the real recovery
code (`log.py`).

A crash keeps what was synced. Of what was not, a random prefix may be there, perhaps followed by
zeros in place of sectors that never arrived; a truncation, a deleted prefix or a reset of the log
that was not synced may be undone. A frozen snapshot is whole or not there at all.
"""

from dataclasses import dataclass, field
from random import Random

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.snapshot_format import SnapshotBounds
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_node.simulation.machine import Machine
from quorum_node.storage.errors import StorageFailure

SECTOR_BYTES = 512


@dataclass(slots=True)
class FrozenSnapshot:
    """A verified one, with what its control records say."""

    data: bytes
    bounds: SnapshotBounds


@dataclass(slots=True)
class UnsyncedStart:
    """The log before its start moved: what a crash may bring back. `behind`: was what is left kept?"""

    start: SnapshotId
    content: bytes
    behind: bool


@dataclass(slots=True)
class SimulatedDisk:
    """Survives restarts of its host; its health is the machine's.

    `start`: the snapshot that the log's bytes begin behind.
    """

    random: Random
    machine: Machine
    content: bytearray = field(default_factory=bytearray)
    durable_bytes: int = 0
    before_truncation: bytes | None = None
    start: SnapshotId = NO_SNAPSHOT
    unsynced_start: UnsyncedStart | None = None
    snapshots: dict[SnapshotId, FrozenSnapshot] = field(default_factory=dict)
    partials: dict[SnapshotId, bytearray] = field(default_factory=dict)
    state: QuorumState | None = None
    failure_seen: bool = False

    @property
    def broken(self) -> bool:
        """For good."""
        return self.machine.disk_broken

    @property
    def full(self) -> bool:
        """Until it is mended."""
        return self.machine.disk_full

    def sync_took_ms(self) -> float:
        """How long this sync takes: mostly a fraction of a millisecond, sometimes long."""
        delay_ms = 0.2 + self.random.random() * 0.6 + self.machine.sync_delay_ms
        return delay_ms * 10 if self.random.random() < 0.02 else delay_ms

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        """The newest one."""
        return max(self.snapshots, default=None)

    def synced(self) -> None:
        """Everything about names and lengths is durable now."""
        self.before_truncation = None
        self.unsynced_start = None

    def crash(self) -> None:
        """Power is gone: forget what was never synced, in one of the ways a disk may."""
        random = self.random
        if self.before_truncation is not None and random.random() < 0.5:
            self.content = bytearray(self.before_truncation)
        else:
            self.content = self._torn(self.content, min(self.durable_bytes, len(self.content)))
        moved = self.unsynced_start
        if moved is not None and random.random() < 0.5:
            self.start = moved.start
            self.content = bytearray(moved.content) + (self.content if moved.behind else b"")
        for partial in self.partials.values():
            if random.random() < 0.5:
                partial[:] = self._torn(partial, 0)
        self.synced()
        self.durable_bytes = 0

    def _torn(self, content: bytearray, durable: int) -> bytearray:
        random = self.random
        unsynced = len(content) - durable
        kept = durable + (random.randint(0, unsynced) if random.random() < 0.7 else 0)
        torn = bytearray(content[:kept])
        if kept < len(content) and random.random() < 0.3:
            sector_end = -(-kept // SECTOR_BYTES) * SECTOR_BYTES
            if kept == sector_end:
                torn += bytes(len(content) - kept)
        return torn

    def save_state(self, state: QuorumState) -> None:
        """Temp file, fsync, rename, fsync: all or nothing."""
        self.check()
        self.state = state

    def check(self) -> None:
        """Every access fails once the disk is broken."""
        if self.broken:
            self.failure_seen = True
            raise StorageFailure("simulated EIO")
