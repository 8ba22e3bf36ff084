"""Simulated snapshots: the driver's device for downloads, and a replica's own, written at random times.

Owns when what is done. Must not know Raft, nor judge what it writes. The files, their format and their verification
are the real ones (`storage/snapshots.py`).
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from quorum_node.raft.events import (
    PrefixObsolete,
    SnapshotCreated,
    SnapshotInstalled,
    SnapshotRejected,
)
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.snapshot_format import (
    CorruptSnapshot,
    SnapshotBounds,
    encode_snapshot,
)
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.snapshot_writer import SnapshotWriter
from quorum_node.storage.snapshots import PARTIAL_SUFFIX, SnapshotMissing, SnapshotStore
from quorum_simulation.state import ServiceState, read_state

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost

STOCK_SHARE = 0.15
"""Hosts that tell no checksum, like a stock leader."""
KEEPS_LOG_SHARE = 0.3
"""Hosts that delete nothing of their log."""


@lru_cache(maxsize=64)
def state_in(id: SnapshotId, data: bytes) -> ServiceState:
    """The state in a whole snapshot, which was verified."""
    values = [
        record.value or b""
        for batch in split_batches(data)[0]
        if not batch.header.is_control
        for record in decode_records(batch)
    ]
    return read_state(id.end_offset, values)


class SimulatedSnapshots:
    """One run's view of the snapshots on a disk: the driver's Snapshots device."""

    def __init__(self, host: "SimulatedHost", store: SnapshotStore) -> None:
        self._host = host
        self._disk = host.disk
        self._store = store
        self._run = host.run
        self._source: tuple[int, int] | None = None
        self._writing: set[SnapshotId] = set()

    # -- the driver's device

    def size_bytes(self, id: SnapshotId) -> int | None:
        try:
            return self._store.size_bytes(id)
        except SnapshotMissing:
            return None

    def checksum(self, id: SnapshotId) -> int | None:
        return None if self._host.tells_no_checksum else self._store.checksum(id)

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes:
        return self._store.read(id, position, max_bytes)

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        self._store.append_partial(id, position, data)
        replica = self._host.replica
        source = (replica.leader_id, replica.epoch)
        if position and source != self._source:
            counts = self._host.cluster.snapshot_counts
            counts["resumed after restart" if self._source is None else "resumed elsewhere"] += 1
        self._source = source
        self._host.cluster.on_download(self._host)

    def drop_partial(self, id: SnapshotId) -> None:
        self._store.drop_partial(id)

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        most_ms = 30 if self._host.random.random() < 0.8 else 900
        self._later(most_ms, self._finish, id, size_bytes, checksum)

    def set_aside(self, id: SnapshotId) -> None:
        """It was found damaged: write another one at once."""
        self._disk.set_aside[id] = self._disk.snapshots.pop(id)
        self._host.cluster.snapshot_counts["set aside"] += 1
        self._begin(self._host.state)

    # -- for faults

    def partial_files(self) -> list[Path]:
        """Downloads that are under way."""
        names = (f"{each.file_name}{PARTIAL_SUFFIX}" for each in self._store.partials())
        return [self._disk.directory / name for name in names]

    # -- inside

    def _later(self, most_ms: float, action: object, *arguments: object) -> None:
        delay_ms = 0.5 + self._host.random.random() * most_ms
        self._host.cluster.scheduler.after(delay_ms, self._act, action, arguments)

    def _act(self, action: object, arguments: tuple[object, ...]) -> None:
        """Nothing is done by a run that is over; a frozen process goes on when it thaws."""
        host = self._host
        if self._run != host.run or not host.up or host.halted is not None:
            return
        now_ms = host.cluster.scheduler.now_ms
        if now_ms < host.frozen_until_ms:
            delay_ms = host.frozen_until_ms - now_ms
            host.cluster.scheduler.after(delay_ms, self._act, action, arguments)
            return
        assert callable(action)
        host.machine.guarded(self._do, action, arguments)

    def _do(self, action: object, arguments: tuple[object, ...]) -> None:
        assert callable(action)
        try:
            action(*arguments)
        except (StorageFailure, DiskFull) as error:
            self._host.driver.flush_failed(error)

    def _finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        counts = self._host.cluster.snapshot_counts
        event: SnapshotInstalled | SnapshotRejected
        try:
            bounds = self._store.finish_partial(id, size_bytes, checksum)
        except CorruptSnapshot as error:
            counts["rejected"] += 1
            event = SnapshotRejected(id, str(error))
        else:
            counts["downloaded"] += 1
            self._frozen(id)
            event = SnapshotInstalled(id, bounds.voters, bounds.kraft_version)
        # A crash may come between the rename and the actions after it.
        self._later(3, self._tell, event)

    def _tell(self, event: SnapshotInstalled | SnapshotRejected) -> None:
        resets = self._host.cluster.snapshot_counts["installed"]
        self._host.driver.snapshot_finished(event)
        if isinstance(event, SnapshotInstalled):
            same = self._host.cluster.snapshot_counts["installed"] == resets
            self._host.cluster.snapshot_counts["overtaken"] += same

    def _frozen(self, id: SnapshotId) -> None:
        frozen = self._disk.snapshots[id] = self._disk.frozen(id)
        self._host.cluster.watch.snapshot_frozen(self._host, id, frozen.data)

    # -- a replica's own snapshots

    def live(self) -> None:
        """Write snapshots and delete what they make superfluous, again and again."""
        if self._host.cluster.controlled:
            return  # this is not a snapshot of the controller's state
        pause_ms = 300 if self._host.cluster.clients.slow else 120
        self._later(pause_ms, self._consider)

    def applied(self, before: ServiceState, state: ServiceState) -> None:
        """One more batch is applied: in some histories all replicas take snapshots at the same places."""
        every = self._host.cluster.snapshot_every
        if (
            every
            and not self._host.cluster.controlled
            and before.end_offset // every != state.end_offset // every
        ):
            self._begin(state)

    def _consider(self) -> None:
        host, random = self._host, self._host.random
        self.live()
        if not host.cluster.snapshot_every and random.random() < 0.5:
            self._begin(host.state)
        if self._disk.snapshots and random.random() < 0.6 and not host.keeps_log:
            host.driver.handle(PrefixObsolete(random.choice(sorted(self._disk.snapshots))))
            self._forget_old()

    def _begin(self, state: ServiceState) -> None:
        host, replica = self._host, self._host.replica
        latest, end_offset = self._store.latest(), self.wanted_end_offset(state)
        if end_offset <= (latest.end_offset if latest is not None else 0) or replica.halted:
            return
        begun = SnapshotId(end_offset, replica.epochs.epoch_at(end_offset - 1))
        if begun in self._writing:
            return
        self._writing.add(begun)
        voters = replica.voters_at(end_offset)
        bounds = SnapshotBounds(0, 1 if voters is not None else 0, voters)
        is_early = host.random.random() < 0.2
        # If it replaces a damaged one at the same offset, the replica knows that id already.
        if is_early and begun != replica.snapshot:
            host.driver.handle(PrefixObsolete(begun))  # it must be refused
        # Started on the worker's thread, where an error belongs to the worker.
        self._later(2, self._write, begun, bounds, state.values())

    def wanted_end_offset(self, state: ServiceState) -> int:
        """A snapshot is of what is applied, and so committed."""
        return state.end_offset

    def _write(self, id: SnapshotId, bounds: SnapshotBounds, values: list[bytes]) -> None:
        writer = self._store.create(id)
        for data in encode_snapshot(id, bounds, values):
            writer.append(data)
        self._later(40, self._freeze, id, writer)

    def _freeze(self, id: SnapshotId, writer: SnapshotWriter) -> None:
        self._writing.discard(id)
        if self.size_bytes(id) is not None:
            writer.abort()  # downloaded in the meantime
        else:
            writer.freeze()
            self._host.cluster.snapshot_counts["written"] += 1
            self._frozen(id)
        self._later(3, self._host.driver.handle, SnapshotCreated(id))

    def _forget_old(self) -> None:
        """Retention: the one that the log begins behind, all newer ones, and what others download."""
        start, in_use = self._host.log.start, self._host.replica.snapshots_in_use()
        for old in self._store.delete_before(start, keep=in_use):
            self._disk.snapshots.pop(old, None)
