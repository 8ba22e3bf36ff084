"""A replica on a simulated machine, and its part of the disk.

Owns the life cycle of the replica and wires the real driver to the simulated devices. Must not know the story
(clients, faults, plans). `machine.py` owns the process.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from quorum_node.raft import RaftConfig, Replica
from quorum_node.raft.events import Event, TimerExpired
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import OutboundRequest, Response
from quorum_node.raft.outputs import (
    AheadOfLeader,
    CorruptionReported,
    FormationDelayed,
    Halt,
    HaltReason,
    OlderQuorum,
    ProposalCommitted,
    ProposalFailed,
    ReadConfirmed,
    ReadFailed,
    ReplicaWentBack,
    RoleChanged,
    Superseded,
    VotersChanged,
)
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.roles import CorruptFetch, Follower
from quorum_node.records.batches import committed_batches
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.server.starting.replica_building import log_state
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.partition_directory import OpenPartition
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_simulation.control.controller import SimulatedController
from quorum_simulation.disk import SimulatedDisk
from quorum_simulation.log import SimulatedLog
from quorum_simulation.machine import Machine
from quorum_simulation.network import Waiting
from quorum_simulation.scrubbing import SimulatedScrub
from quorum_simulation.snapshots import (
    KEEPS_LOG_SHARE,
    STOCK_SHARE,
    SimulatedSnapshots,
    state_in,
)
from quorum_simulation.state import ServiceState

if TYPE_CHECKING:
    from quorum_simulation.cluster import Cluster


LATEST_SETTLE_MS = 1000.0


class SimulatedHost:
    """`run`: number of process starts; events for an earlier run are dropped."""

    def __init__(
        self,
        cluster: "Cluster",
        address: str,
        key: ReplicaKey,
        config: RaftConfig,
        seed: int,
        machine: Machine,
    ) -> None:
        self.machine = machine
        machine.replicas.append(self)
        self.cluster = cluster
        self.address = address
        self.key = key
        self.config = config
        machine.clock.on_change.append(self._clock_changed)
        self.disk = SimulatedDisk(Random(seed), machine, len(machine.replicas) - 1)
        self.random = Random(seed + 1)
        self.tells_no_checksum = self.random.random() < STOCK_SHARE
        self.keeps_log = self.random.random() < KEEPS_LOG_SHARE
        self.waiting: dict[int, Waiting] = {}
        self.up = False
        self.run = 0
        self.was_up = False
        """Whether any start has succeeded; there is no replica before."""
        self.halted: HaltReason | None = None
        self.log: SimulatedLog
        self.snapshots: SimulatedSnapshots
        self.state = ServiceState()
        self.opened_state = QuorumState()
        """Content of quorum-state at the last start."""
        self._state_file: QuorumStateFile
        self.driver: ReplicaDriver
        self.controller: SimulatedController | None = None

    @property
    def replica(self) -> Replica:
        return self.driver.replica

    @property
    def has_run(self) -> bool:
        """Whether a replica has run: not if the disk refused the start."""
        return hasattr(self, "driver")

    @property
    def is_leader(self) -> bool:
        return self.up and isinstance(self.driver.replica.role, Leader)

    @property
    def retired(self) -> bool:
        return self.machine.retired

    @property
    def frozen_until_ms(self) -> float:
        return self.machine.frozen_until_ms

    @property
    def is_downloading(self) -> bool:
        """Whether it downloads a snapshot from its leader, or verifies one."""
        replica = self.driver.replica
        role, partial = replica.role, replica.partial
        return (
            self.up
            and partial is not None
            and isinstance(role, Follower)
            and (role.downloading or partial.finishing)
        )

    def forget_static_voters(self) -> None:
        """The configuration has bootstrap servers in place of controller.quorum.voters, and the process is as if restarted.

        It keeps the key as long as it has not learned that the quorum has formed.
        """
        self.config = replace(self.config, static_voters=())
        self.drop_static_voters()

    def drop_static_voters(self) -> None:
        """Like `forget_static_voters`, for the running process."""
        replica = self.replica
        if replica.config.static_voters and not self.config.static_voters and not replica.ids_only:
            replica.config = replace(replica.config, static_voters=())

    def start_replica(self, opened: OpenPartition) -> None:
        """The directory is open: start the replica, as the real process does."""
        assert not self.up
        self.run += 1
        self.up, self.was_up, self.halted = True, True, None
        clock = self.machine.clock
        self.disk.look(opened.snapshots)
        self._state_file, self.opened_state = opened.state_file, opened.state
        recovered = log_state(opened)
        self.snapshots = SimulatedSnapshots(self, opened.snapshots)
        self.log = WatchedLog(self, opened.log)
        replica = Replica(
            replace(self.config, boot_timestamp_ms=clock.wall_ms()),
            self.key,
            opened.state,
            recovered,
            self.random.random,
            clock.wall_ms,
        )
        flusher = SimulatedFlusher(self)
        self._listener = HostListener(self)
        self.driver = ReplicaDriver(
            replica,
            self.log,
            self,
            self,
            clock.monotonic_ms,
            flusher,
            self._listener,
            self.snapshots,
        )
        flusher.driver = self.driver
        self.controller = SimulatedController(self) if self.cluster.controlled else None
        self.cluster.watch.started(self)
        try:
            self._load()
        except StorageFailure as error:  # in a segment that was opened without reading it
            self.driver.flush_failed(error)
            return
        self.driver.start()
        self.snapshots.live()
        SimulatedScrub(self, opened)

    def _load(self) -> None:
        """Load the state as a process does at its start: from a snapshot and the log, or the log alone."""
        latest = self.disk.latest_snapshot
        if latest is None or (self.log.start_offset == 0 and self.random.random() < 0.3):
            self.state = ServiceState()
        else:
            self.state = state_in(latest, self.disk.snapshots[latest].data)
        self.apply(self.replica.high_watermark)

    def apply(self, offset: int) -> None:
        """Replay committed records."""
        while self.state.end_offset < offset:
            data = self.log.read(self.state.end_offset, 1 << 20, offset)
            batches, damage = committed_batches(data, self.state.end_offset, offset)
            for batch in batches:
                before, self.state = self.state, self.state.after(batch)
                self.snapshots.applied(before, self.state)
            if damage is not None:
                raise StorageFailure(f"unreadable from {self.state.end_offset} on: {damage}")
        self.cluster.watch.applied(self)

    def log_reset(self, id: SnapshotId) -> None:
        """The log begins behind a downloaded snapshot."""
        self.cluster.snapshot_counts["installed"] += 1
        self.state = state_in(id, self.disk.snapshots[id].data)
        self.cluster.watch.applied(self)

    def refuse_start(self, reason: HaltReason) -> None:
        """The directory can't be opened."""
        self.run += 1
        self.halted = reason

    def _clock_changed(self) -> None:
        if self.up:
            self._listener.clock_changed()

    def crash_replica(self) -> None:
        """The process has ended."""
        if self.up:
            self.up = False
            self.cluster.network.host_went_down(self)

    def handle(self, run: int, event: Event) -> None:
        """Pass an event to this run of the process; a frozen one gets it when it continues."""
        if run != self.run or not self.up:
            return
        machine, scheduler = self.machine, self.cluster.scheduler
        frozen_ms = machine.frozen_until_ms - scheduler.now_ms
        if frozen_ms > 0:
            scheduler.after(frozen_ms, self.handle, run, event)
            return
        machine.guarded(self.driver.handle, event)

    def send(
        self, correlation: int, endpoint: Endpoint, request: OutboundRequest, timeout_ms: float
    ) -> None:
        """Transport."""
        self.cluster.network.send(self, correlation, endpoint, request, timeout_ms)

    def respond(self, request_id: int, response: Response) -> None:
        """Transport."""
        self.cluster.watch.responded(self, request_id, response)
        if not self.cluster.answered(request_id, response):
            self.cluster.network.respond(self, request_id, response)

    def save(self, state: QuorumState) -> None:
        """QuorumStateStore."""
        self._state_file.save(state)
        self.cluster.watch.persisted(self, state)

    def halt(self, output: Halt) -> None:
        """The process ends itself; its writes are in the page cache of the running kernel."""
        self.halted = output.reason
        self.machine.halted(output)


class WatchedLog(SimulatedLog):
    """Reports every append and every removal of records to the invariants."""

    def __init__(self, host: SimulatedHost, log: SegmentedLog) -> None:
        super().__init__(log, host.machine.files, host.machine.as_written)
        self._host = host

    def append(self, data: bytes, base_offset: int, end_offset: int, leader_epoch: int) -> None:
        super().append(data, base_offset, end_offset, leader_epoch)
        self._host.cluster.watch.appended(self._host, data, base_offset, end_offset, leader_epoch)

    def truncate_to(self, end_offset: int) -> None:
        super().truncate_to(end_offset)
        self._host.cluster.watch.truncated(self._host, end_offset)

    def reset_to(self, id: SnapshotId) -> None:
        super().reset_to(id)
        self._host.cluster.watch.truncated(self._host, id.end_offset)
        self._host.cluster.watch.log_started(self._host)

    def delete_prefix(self, id: SnapshotId) -> None:
        super().delete_prefix(id)
        self._host.cluster.snapshot_counts["prefix deleted"] += 1
        self._host.cluster.watch.log_started(self._host)


class SimulatedFlusher:
    """Group commit that takes time; it covers the data written when it began."""

    driver: ReplicaDriver

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host
        self._settles = False

    def start(self, ticket: int) -> None:
        host = self._host
        failed: StorageFailure | DiskFull | None = None
        try:
            host.log.sync_begins()
        except (StorageFailure, DiskFull) as error:
            # the log has failed meanwhile: the flush thread gets the error, as in a real process
            failed = error
        host.cluster.scheduler.after(host.disk.sync_took_ms(), self._done, host.run, ticket, failed)

    def _done(self, run: int, ticket: int, failed: StorageFailure | DiskFull | None) -> None:
        host = self._host
        if run != host.run or not host.up:
            return
        now_ms = host.cluster.scheduler.now_ms
        if now_ms < host.frozen_until_ms:
            delay_ms = host.frozen_until_ms - now_ms
            host.cluster.scheduler.after(delay_ms, self._done, run, ticket, failed)
            return
        host.machine.guarded(self._end, ticket, failed)

    def _end(self, ticket: int, failed: StorageFailure | DiskFull | None) -> None:
        if failed is not None:
            self.driver.flush_failed(failed)
            return
        try:
            end_offset = self._host.log.sync_ends()
        except (StorageFailure, DiskFull) as error:
            self.driver.flush_failed(error)
            return
        if not self._settles:
            self._settles = True
            delay_ms = self._host.random.random() * LATEST_SETTLE_MS
            self._host.cluster.scheduler.after(delay_ms, self._settle, self._host.run)
        self.driver.flush_completed(ticket, end_offset)

    def _settle(self, run: int) -> None:
        """Make the synced end durable, some time after the sync."""
        host = self._host
        if run == host.run and host.up and host.halted is None:
            self._settles = False
            host.machine.guarded(self._settle_now)

    def _settle_now(self) -> None:
        try:
            self._host.log.settle()
        except (StorageFailure, DiskFull) as error:
            self.driver.flush_failed(error)


class HostListener:
    """Passes on the replica's outputs, and keeps its timer."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host
        self._deadline_ms: float | None = None
        self._scheduled_ms = float("inf")
        self._number = 0
        """Number of the newest timer; earlier ones are void."""
        self.halted = host.halt

    def proposal_committed(self, output: ProposalCommitted) -> None:
        controller = self._host.controller
        if controller is not None:
            controller.committed(output)
        else:
            self._host.cluster.clients.committed(output)

    def proposal_failed(self, output: ProposalFailed) -> None:
        controller = self._host.controller
        if controller is not None:
            controller.failed(output)
        else:
            self._host.cluster.clients.failed(output)

    def read_confirmed(self, output: ReadConfirmed) -> None:
        self._host.cluster.clients.read_confirmed(self._host, output)

    def read_failed(self, output: ReadFailed) -> None:
        self._host.cluster.clients.read_failed(output)

    def high_watermark_advanced(self, offset: int) -> None:
        self._host.cluster.watch.high_watermark(self._host, offset)
        self._host.apply(offset)
        if self._host.controller is not None:
            self._host.controller.advanced(offset)

    def log_reset(self, id: SnapshotId) -> None:
        self._host.log_reset(id)

    def role_changed(self, output: RoleChanged) -> None:
        self._host.cluster.watch.role(self._host, output)
        self._host.cluster.role_changed(self._host, output)
        if self._host.controller is not None:
            self._host.controller.progressed()

    def formation_delayed(self, output: FormationDelayed) -> None: ...

    def ahead_of_leader(self, output: AheadOfLeader) -> None:
        if self._host.cluster.recovered is None:
            raise AssertionError(f"committed records are lost: {output}")

    def replica_went_back(self, output: ReplicaWentBack) -> None:
        if not any(host.machine.went_back for host in self._host.cluster.hosts.values()):
            raise AssertionError(f"no disk went back, and one is said to: {output}")

    def corrupt_fetch(self, output: CorruptFetch) -> None:
        damaged = any(host.machine.disk_faults for host in self._host.cluster.hosts.values())
        if not damaged and not self._host.cluster.network.damaged_answers:
            raise AssertionError(f"no batch was damaged, and one is said to be: {output}")

    def corruption_reported(self, output: CorruptionReported) -> None: ...

    def older_quorum(self, output: OlderQuorum) -> None:
        self._superseded("older quorum refused", output)

    def superseded(self, output: Superseded) -> None:
        self._superseded("older quorum told", output)

    def _superseded(self, what: str, output: OlderQuorum | Superseded) -> None:
        if self._host.cluster.recovered is None:
            raise AssertionError(f"there was no recovery, and one is told of: {output}")
        self._host.cluster.recovery_counts[what] += 1

    def broken(self, error: Exception) -> None:
        """The exception itself ends the history."""

    def voters_changed(self, output: VotersChanged) -> None:
        self._host.drop_static_voters()
        self._host.cluster.voters_changed(self._host, output)

    def deadline_changed(self, deadline_ms: float | None) -> None:
        self._deadline_ms = deadline_ms
        if deadline_ms is not None and deadline_ms < self._scheduled_ms:
            self._schedule(deadline_ms)

    def clock_changed(self) -> None:
        """Schedule the timer again, because the clock has changed."""
        self._scheduled_ms = float("inf")
        if self._deadline_ms is not None:
            self._schedule(self._deadline_ms)

    def _schedule(self, deadline_ms: float) -> None:
        """Set the timer. `deadline_ms`: by the machine's clock."""
        self._scheduled_ms = deadline_ms
        self._expire_in(self._host.machine.clock.delay_until(deadline_ms))

    def _expire_in(self, delay_ms: float) -> None:
        self._number += 1
        self._host.cluster.scheduler.after(delay_ms, self._expired, self._host.run, self._number)

    def _expired(self, run: int, number: int) -> None:
        if run != self._host.run or number != self._number:
            return
        host = self._host
        frozen_ms = host.frozen_until_ms - host.cluster.scheduler.now_ms
        if frozen_ms > 0:
            self._expire_in(frozen_ms)
            return
        self._scheduled_ms = float("inf")
        deadline_ms = self._deadline_ms
        if deadline_ms is None:
            return
        if host.machine.clock.delay_until(deadline_ms) > 0:
            self._schedule(deadline_ms)
            return
        self._deadline_ms = None
        host.handle(run, TimerExpired())
        self._keep_alive(run)

    def _keep_alive(self, run: int) -> None:
        """Schedule again after an expiry that changed nothing, as the deadline is then not reported again."""
        if self._deadline_ms is None and self._host.up and run == self._host.run:
            self.deadline_changed(self._host.driver.next_deadline_ms())
