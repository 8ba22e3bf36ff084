"""Simulated snapshots: the driver's device for downloads, and a replica's own, written at random times.

Owns when what is durable, and what a crash finds of it. Must not know Raft, nor judge what it writes.
The format and its verification are the real ones.
"""

from typing import TYPE_CHECKING

from crc32c import crc32c

from quorum_node.raft.events import (
    PrefixObsolete,
    SnapshotCreated,
    SnapshotInstalled,
    SnapshotRejected,
)
from quorum_node.records.batches import decode_records
from quorum_node.records.snapshot_format import (
    CorruptSnapshot,
    SnapshotBounds,
    SnapshotReader,
    encode_snapshot,
)
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.simulation.disk import FrozenSnapshot
from quorum_node.simulation.state import ServiceState, read_state
from quorum_node.storage.errors import DiskFull, StorageFailure

if TYPE_CHECKING:
    from quorum_node.simulation.host import SimulatedHost

STOCK_SHARE = 0.15
"""Hosts that tell no checksum, like a stock leader."""
KEEPS_LOG_SHARE = 0.3
"""Hosts that delete nothing of their log."""


def state_in(id: SnapshotId, data: bytes) -> ServiceState:
    """The state in a whole snapshot."""
    reader = SnapshotReader(id)
    values = [
        record.value or b""
        for batch in reader.feed(data)
        if not batch.header.is_control
        for record in decode_records(batch)
    ]
    reader.finish()
    return read_state(id.end_offset, values)


class SimulatedSnapshots:
    """One run's view of the snapshots on a disk: the driver's Snapshots device."""

    def __init__(self, host: "SimulatedHost") -> None:
        self._host = host
        self._disk = host.disk
        self._run = host.run
        self._source: tuple[int, int] | None = None
        for found, partial in list(self._disk.partials.items()):
            self._recover(found, partial)

    def _recover(self, id: SnapshotId, partial: bytearray) -> None:
        """Keep of a download what is whole, as storage does."""
        reader = SnapshotReader(id)
        try:
            reader.feed(bytes(partial))
        except CorruptSnapshot:
            pass  # what was checked before still holds
        del partial[reader.checked_bytes :]

    # -- the driver's device

    def size_bytes(self, id: SnapshotId) -> int | None:
        frozen = self._disk.snapshots.get(id)
        return None if frozen is None else len(frozen.data)

    def checksum(self, id: SnapshotId) -> int | None:
        if self._host.tells_no_checksum:
            return None
        return crc32c(self._disk.snapshots[id].data)

    def read(self, id: SnapshotId, position: int, max_bytes: int) -> bytes:
        self._disk.check()
        return self._disk.snapshots[id].data[position : position + max_bytes]

    def append_partial(self, id: SnapshotId, position: int, data: bytes) -> None:
        disk = self._disk
        disk.check()
        if disk.full:
            raise DiskFull("simulated ENOSPC")
        partial = disk.partials.setdefault(id, bytearray())
        assert position <= len(partial), f"a gap before byte {position} of {id}"
        replica = self._host.replica
        source = (replica.leader_id, replica.epoch)
        if position and source != self._source:
            counts = self._host.cluster.snapshot_counts
            counts["resumed after restart" if self._source is None else "resumed elsewhere"] += 1
        self._source = source
        del partial[position:]
        partial += data
        self._host.cluster.on_download(self._host)

    def drop_partial(self, id: SnapshotId) -> None:
        self._disk.partials.pop(id, None)

    def start_finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        most_ms = 30 if self._host.random.random() < 0.8 else 900
        self._later(most_ms, self._finish, id, size_bytes, checksum)

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
        try:
            self._disk.check()
            if self._disk.full:
                raise DiskFull("simulated ENOSPC")
            action(*arguments)
        except (StorageFailure, DiskFull) as error:
            host.driver.flush_failed(error)

    def _finish(self, id: SnapshotId, size_bytes: int, checksum: int | None) -> None:
        counts = self._host.cluster.snapshot_counts
        data = bytes(self._disk.partials.pop(id, b""))
        event: SnapshotInstalled | SnapshotRejected
        try:
            bounds = verify(id, data, size_bytes, checksum)
        except CorruptSnapshot as error:
            counts["rejected"] += 1
            event = SnapshotRejected(id, str(error))
        else:
            counts["downloaded"] += 1
            self._freeze(id, data, bounds)
            event = SnapshotInstalled(id, bounds.voters, bounds.kraft_version)
        # A crash may come between the rename and what follows from it.
        self._later(3, self._tell, event)

    def _tell(self, event: SnapshotInstalled | SnapshotRejected) -> None:
        resets = self._host.cluster.snapshot_counts["installed"]
        self._host.driver.snapshot_finished(event)
        if isinstance(event, SnapshotInstalled):
            same = self._host.cluster.snapshot_counts["installed"] == resets
            self._host.cluster.snapshot_counts["overtaken"] += same

    def _freeze(self, id: SnapshotId, data: bytes, bounds: SnapshotBounds) -> None:
        self._disk.snapshots[id] = FrozenSnapshot(data, bounds)
        self._host.cluster.watch.snapshot_frozen(self._host, id, data)

    # -- a replica's own snapshots

    def live(self) -> None:
        """Write snapshots and delete what they make superfluous, again and again."""
        pause_ms = 300 if self._host.cluster.clients.slow else 120
        self._later(pause_ms, self._consider)

    def applied(self, before: ServiceState, state: ServiceState) -> None:
        """One more batch is applied: in some histories all replicas take snapshots at the same places."""
        every = self._host.cluster.snapshot_every
        if every and before.end_offset // every != state.end_offset // every:
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
        latest, end_offset = self._disk.latest_snapshot, self.wanted_end_offset(state)
        if end_offset <= (latest.end_offset if latest is not None else 0) or replica.halted:
            return
        begun = SnapshotId(end_offset, replica.epochs.epoch_at(end_offset - 1))
        voters = replica.voters_at(end_offset)
        bounds = SnapshotBounds(0, 1 if voters is not None else 0, voters)
        data = b"".join(encode_snapshot(begun, bounds, state.values()))
        if host.random.random() < 0.2:
            host.driver.handle(PrefixObsolete(begun))  # much too early: it must be refused
        self._later(40, self._written, begun, data, bounds)

    def wanted_end_offset(self, state: ServiceState) -> int:
        """A snapshot is of what is applied, and so committed."""
        return state.end_offset

    def _written(self, id: SnapshotId, data: bytes, bounds: SnapshotBounds) -> None:
        if id not in self._disk.snapshots:
            self._host.cluster.snapshot_counts["written"] += 1
            self._freeze(id, data, bounds)
        self._later(3, self._host.driver.handle, SnapshotCreated(id))

    def _forget_old(self) -> None:
        """Retention: the one that the log begins behind, all newer ones, and what others download."""
        in_use = self._host.replica.snapshots_in_use()
        for old in sorted(self._disk.snapshots):
            if old < self._host.log.start and old not in in_use:
                del self._disk.snapshots[old]


def verify(id: SnapshotId, data: bytes, size_bytes: int, checksum: int | None) -> SnapshotBounds:
    """Check a whole download as storage does. Raises CorruptSnapshot."""
    if len(data) != size_bytes or checksum not in (None, crc32c(data)):
        raise CorruptSnapshot(f"snapshot {id}: other bytes than the leader's")
    reader = SnapshotReader(id)
    reader.feed(data)
    return reader.finish()
