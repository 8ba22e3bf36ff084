"""The replica of one partition: the driver with its real devices, and the requests that wait for it.

Owns request ids, the timer, appends, reads and the applied image. Knows no sockets and no other partition: requests come through
`request`, and messages are sent through the peers of the process. Its interfaces to the role, the owner and the reporter are in
`port.py`.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from time import perf_counter

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.events import (
    DiskLow,
    FailureReason,
    Proposed,
    ReadAbandoned,
    ReadRequested,
    RequestAbandoned,
    RequestFailed,
    RequestHurried,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    SnapshotInstalled,
    SnapshotRejected,
    TimerExpired,
)
from quorum_node.raft.outputs import (
    AheadOfLeader,
    CorruptionReported,
    FormationDelayed,
    Halt,
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
from quorum_node.raft.replica import Replica
from quorum_node.raft.roles import CorruptFetch, RoleName
from quorum_node.raft.voters import VotersEntry
from quorum_node.records.identity import Endpoint
from quorum_node.records.snapshot_format import CorruptSnapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.disk.scrubber import Scrubber
from quorum_node.server.observing.commit_times import CommitTimes, ElectionTimes
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.appends import AppendQueue
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.driver import ReplicaDriver, storage_failed
from quorum_node.server.partition.flusher import LogFlusher
from quorum_node.server.partition.port import (
    NAMES_VOTERS,
    Append,
    AppendDone,
    AppendOutcome,
    NoRole,
    PartitionOwner,
    PartitionRole,
    ReplicaReporter,
    clock_ms,
)
from quorum_node.server.partition.reads import ReadQueue
from quorum_node.server.partition.snapshotted import Snapshotted
from quorum_node.server.peers.port import Peers
from quorum_node.server.snapshots.device import SnapshotDevice
from quorum_node.server.snapshots.events import SnapshotEvents
from quorum_node.server.snapshots.snapshotter import Snapshotter
from quorum_node.server.wire.instant import Instant
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.snapshot_opening import CompleteSnapshot
from quorum_node.storage.snapshots import SnapshotStore

Answered = Callable[[raft.Response], None]
MakeRole = Callable[["ReplicaHost"], PartitionRole]


def no_role(host: "ReplicaHost") -> PartitionRole:
    """The role of a partition that has none."""
    return NoRole()


class ReplicaHost:
    """See the module. All methods run on the loop's thread."""

    def __init__(
        self,
        replica: Replica,
        log: SegmentedLog,
        state_file: QuorumStateFile,
        metrics: Metrics,
        peers: Peers,
        owner: PartitionOwner,
        reporter: ReplicaReporter,
        snapshot_events: SnapshotEvents,
        *,
        partition: int,
        snapshots: SnapshotStore,
        newest: CompleteSnapshot | None,
        policy: SnapshotPolicy,
        room: Callable[[], int],
        scrub_bytes_per_second: int,
        make_role: MakeRole = no_role,
    ) -> None:
        self.partition = partition
        self._metrics = metrics.partition(partition)
        self._commit_times = CommitTimes(self._metrics)
        self._election_times = ElectionTimes(self._metrics)
        self._owner = owner
        self._reporter = reporter
        self._role_change = asyncio.Event()
        self._snapshot_events = snapshot_events
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = float("inf")
        self._answers: dict[int, Answered] = {}
        self._next_request_id = 1
        self.log = log
        self.halt: Halt | None = None
        self.peers = peers
        peers.attach(partition, self)
        self.flusher = LogFlusher(log, self._flushed, self._metrics, lambda: replica.high_watermark)
        device = SnapshotDevice(snapshots, self)
        self.driver = ReplicaDriver(
            replica, log, state_file, self, clock_ms, self.flusher, self, device
        )
        self.applier = Applier(log, self, self._metrics)
        self.committed = self.applier.committed
        self.snapshots = snapshots
        self._newest = newest
        snapshotted = Snapshotted(
            self.driver, self.applier, lambda: self.role, room, self.fail_storage
        )
        self.snapshotter = Snapshotter(
            snapshots, log, snapshotted, policy, self._metrics, snapshot_events
        )
        self.scrubber = Scrubber(
            log,
            state_file,
            snapshots.ids,
            self.snapshotter.scrub,
            self.fail_storage,
            self._metrics,
            bytes_per_second=scrub_bytes_per_second,
        )
        self.appends = AppendQueue(self._propose, self._settled, self._metrics)
        self.reads = ReadQueue(self._request_read, self._abandon_read, self.applier, self._metrics)
        self.role: PartitionRole = make_role(self)

    # -- queries and requests

    def request(self, request: raft.Request, done: Answered) -> int:
        """Pass a request to the core. `done` is called once, unless the request is abandoned."""
        request_id = self._next_request_id
        self._next_request_id = request_id + 1
        if isinstance(request, NAMES_VOTERS):
            refusal = self.role.refuse_voters(request)
            if refusal is not None:
                done(refusal)
                return request_id
        self._answers[request_id] = done
        self.driver.handle(RequestReceived(request_id, request))
        return request_id

    def hurry(self, request_id: int) -> None:
        """Answer a parked fetch now, with the data that there is."""
        if request_id in self._answers:
            self.driver.handle(RequestHurried(request_id))

    def abandon(self, request_id: int) -> None:
        """The answer is not needed any more."""
        if self._answers.pop(request_id, None) is not None:
            self.driver.handle(RequestAbandoned(request_id))

    def append(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append encoded metadata values. `done` is called exactly once, never before this returns."""
        append = self.appends.submit(values, done)
        if append is not None:
            self.role.appended(append)

    def request_snapshot(self, done: Callable[[SnapshotId | str], None]) -> None:
        """Write a snapshot now. `done` is called once, with its id or with the reason of the failure."""
        self.snapshotter.request(done)

    def describe(self) -> ReplicaDescription:
        """The state of the core now."""
        return self.driver.describe()

    async def next_role(self) -> None:
        """Return when the role, or the known leader, changes next."""
        await self._role_change.wait()

    def voters_offset(self) -> int:
        """Offset of the latest voters record, -1 when there is none."""
        return self.driver.replica.voters.latest.offset

    def voter_sets(self) -> Sequence[VotersEntry]:
        """Every voter set in the log or a snapshot, the oldest first."""
        return self.driver.replica.voters.entries

    def now(self) -> Instant:
        """This instant on both clocks."""
        return Instant(clock_ms(), time.time_ns() // 1_000_000)

    def start(self) -> None:
        """Start the replica."""
        if self._newest is not None and self._newest.id.end_offset > 0:
            self._load(self._newest.id)
        self.snapshotter.start()
        self.scrubber.start()
        self.applier.advance(self.describe().high_watermark)
        self.driver.start()

    def make_durable(self) -> None:
        """At the end of the process: sync the log, and record what is committed. Raises StorageFailure, DiskFull."""
        self.log.flush()
        self.log.settle(self.driver.replica.high_watermark)

    def request_shutdown(self) -> None:
        """Hand over and halt."""
        self.driver.handle(ShutdownRequested())

    def fail_storage(self, failure: StorageFailure | DiskFull) -> None:
        """The disk failed outside of the driver (free-space check, meta.properties)."""
        self.driver.handle(storage_failed(failure))

    def disk_low(self, low: bool) -> None:
        """Free space crossed the reserve."""
        self.driver.handle(DiskLow(low))

    def warm_peers(self) -> None:
        """Keep connections to the other voters open, so that no handshake delays an election."""
        replica = self.driver.replica
        if replica.is_voter and not replica.halted and not replica.stopping:
            for voter in replica.voters.latest.voters:
                endpoint = voter.endpoint(CONTROLLER)
                if voter.key.id != replica.key.id and endpoint is not None:
                    self.peers.warm(endpoint)

    def close(self) -> None:
        """Cancel the timer. The log and the connections are closed by their owner."""
        if self._timer is not None:
            self._timer.cancel()
        self.snapshotter.close()
        self.scrubber.close()
        self.flusher.close()

    # -- the driver's transport

    def send(
        self, correlation: int, endpoint: Endpoint, request: raft.OutboundRequest, timeout_ms: float
    ) -> None:
        """Send to a peer."""
        self.peers.send(self.partition, correlation, endpoint, request, timeout_ms)

    def respond(self, request_id: int, response: raft.Response) -> None:
        """Pass the answer to the callback of the request."""
        done = self._answers.pop(request_id, None)
        if done is not None:
            done(response)

    # -- from the peers

    def response_received(self, correlation: int, response: raft.InboundResponse) -> None:
        """A peer answered."""
        if isinstance(response, raft.FetchResponse) and response.records:
            before = self.log.end_offset
            self.driver.handle(ResponseReceived(correlation, response))
            self._metrics.count("fetched_bytes", len(response.records))
            self._metrics.count("records_fetched", max(0, self.log.end_offset - before))
            return
        self.driver.handle(ResponseReceived(correlation, response))

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        """There will be no answer from the peer."""
        self.driver.handle(RequestFailed(correlation, reason))

    # -- from the core

    def proposal_committed(self, output: ProposalCommitted) -> None:
        """Answer the appends of a batch."""
        self.appends.committed(output.proposal_id, output.base_offset, output.leader_epoch)

    def proposal_failed(self, output: ProposalFailed) -> None:
        """Fail the appends of a batch."""
        self.appends.failed(output.proposal_id, output.error)

    def read_confirmed(self, output: ReadConfirmed) -> None:
        """Let the reads continue."""
        # The high watermark that confirms a read may be reported later in the same step.
        self.applier.advance(output.offset)
        self.reads.confirmed(output.read_id, output.offset)

    def read_failed(self, output: ReadFailed) -> None:
        """Fail the reads."""
        self.reads.failed(output.read_id, output.error)

    def high_watermark_advanced(self, offset: int) -> None:
        """More records are committed."""
        self._commit_times.committed(offset)
        self.flusher.settle_soon()  # on a busy machine the commit may come long after the flush
        self.applier.advance(offset)
        self.role.progressed()

    def log_reset(self, id: SnapshotId) -> None:
        """The log starts at the end of a downloaded snapshot now."""
        self._load(id)
        self.snapshotter.installed(id)

    def role_changed(self, output: RoleChanged) -> None:
        """Count and log the change, inform the role, and connect to the voters."""
        if output.role is RoleName.LEADER:
            self._metrics.count("elections_won")
        self._election_times.role_changed(output)
        if output.role is not RoleName.LEADER:
            self._commit_times.forget()
        self.flusher.settle_soon()  # the driver has synced the log itself
        self._reporter.role_changed(output)
        self.role.progressed()
        self._role_change.set()  # wakes those who wait now
        self._role_change.clear()
        self.warm_peers()

    def corrupt_fetch(self, output: CorruptFetch) -> None:
        """Count and log the event."""
        self._metrics.count("corrupt_fetches")
        self._reporter.corrupt_fetch(output)

    def corruption_reported(self, output: CorruptionReported) -> None:
        """Count and log the event."""
        self._metrics.count("corruption_reports")
        self._reporter.corruption_reported(output)

    def older_quorum(self, output: OlderQuorum) -> None:
        """Count and log the event."""
        self._metrics.count_labelled("superseded_quorum", "refused")
        self._reporter.older_quorum(output)

    def superseded(self, output: Superseded) -> None:
        """Count and log the event."""
        self._metrics.count_labelled("superseded_quorum", "own")
        self._reporter.superseded(output)

    def voters_changed(self, output: VotersChanged) -> None:
        """The latest voters have changed, committed or not: inform the owner and the role, log it, and connect to the voters."""
        self._owner.voters_changed(self, output)
        self._reporter.voters_changed(output)
        self.role.progressed()
        self.warm_peers()

    def formation_delayed(self, output: FormationDelayed) -> None:
        """Log that initial voters are still missing."""
        self._reporter.formation_delayed(output)

    def ahead_of_leader(self, output: AheadOfLeader) -> None:
        """Log that a replica has more committed records than this leader."""
        self._reporter.ahead_of_leader(output)

    def replica_went_back(self, output: ReplicaWentBack) -> None:
        """Count and log the event."""
        self._metrics.count("replicas_went_back")
        self._reporter.replica_went_back(output)

    def halted(self, output: Halt) -> None:
        """The replica has halted; the process ends soon."""
        self.halt = output
        self._owner.halted(self, output)
        self._reporter.halted(output)

    def broken(self, error: Exception) -> None:
        """A step was interrupted by a bug: the process ends."""
        self._owner.broken(error)

    def deadline_changed(self, deadline_ms: float | None) -> None:
        """Set the timer. One that is set earlier is kept: an early TimerExpired is harmless."""
        if deadline_ms is None or self._timer_ms <= deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._arm(deadline_ms)

    # -- from the applier

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image from the role, if it has made it already; see `ApplierPort`."""
        return self.role.image_behind(image, base_offset, end_offset, epoch)

    def applied(self, size_bytes: int) -> None:
        """Replayed bytes: a snapshot may be due."""
        self.snapshotter.applied(size_bytes)

    def image_changed(self) -> None:
        """Inform the role."""
        self.role.image_changed()

    def unreadable(self, error: Exception) -> None:
        """Committed records can't be read: the disk has failed."""
        failure = (
            error
            if isinstance(error, StorageFailure)
            else StorageFailure(f"committed records are damaged: {error}")
        )
        self.fail_storage(failure)

    # -- from the snapshots on the disk

    def download_begins(self, id: SnapshotId) -> None:
        """Another replica asked for the first part of a snapshot."""
        self.snapshotter.verify_in_background(id)

    def snapshot_finished(self, event: SnapshotInstalled | SnapshotRejected) -> None:
        """A download was verified, or it is damaged."""
        if isinstance(event, SnapshotRejected):
            self._metrics.count("snapshots_damaged")
            self._snapshot_events.rejected(event.detail)
        self.driver.snapshot_finished(event)

    # -- internals

    def _settled(self, append: Append, outcome: AppendOutcome) -> None:
        self.role.settled(append, outcome)

    def _load(self, id: SnapshotId) -> None:
        try:
            timestamp_ms = self.snapshots.timestamp_ms(id)
        except (StorageFailure, DiskFull) as failure:
            self.fail_storage(failure)
            return
        except CorruptSnapshot as error:  # it was intact when it was verified
            self.fail_storage(StorageFailure(str(error)))
            return
        self.applier.load(id, timestamp_ms, self.snapshots.batches(id))

    def _arm(self, deadline_ms: float) -> None:
        self._timer_ms = deadline_ms
        delay_seconds = max(0.0, (deadline_ms - clock_ms()) / 1000)
        self._timer = self._loop.call_later(delay_seconds, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer, self._timer_ms = None, float("inf")
        deadline_ms = self.driver.next_deadline_ms()
        if deadline_ms is None:
            return
        if deadline_ms <= clock_ms():
            self.driver.handle(TimerExpired())
            deadline_ms = self.driver.next_deadline_ms()
        if deadline_ms is not None:
            self.deadline_changed(deadline_ms)

    def _propose(self, proposal_id: int, values: tuple[bytes, ...]) -> None:
        before = self.log.end_offset
        began = perf_counter()
        self.driver.handle(Proposed(proposal_id, values))
        if self.log.end_offset > before:
            self._commit_times.appended(self.log.end_offset, began)

    def _request_read(self, read_id: int) -> None:
        self.driver.handle(ReadRequested(read_id))

    def _abandon_read(self, read_id: int) -> None:
        self.driver.handle(ReadAbandoned(read_id))

    def _flushed(self, ticket: int, result: int | StorageFailure | DiskFull) -> None:
        if isinstance(result, int):
            self._commit_times.durable(result)
            self.driver.flush_completed(ticket, result)
            self._owner.flushed()
        else:
            self.driver.flush_failed(result)
