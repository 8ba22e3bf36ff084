"""One replica of one partition: `step` takes an event and returns outputs.

Owns the dispatch of events to the rules, one module per RPC. Must not know bytes, sockets, files or
clocks. Source: KIP-595, KIP-650, KIP-853; see the modules.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quorum_node.raft import (
    alter_quorum,
    begin_end_epoch,
    commit,
    describe,
    discover_brokers,
    discovery,
    election,
    fetch_answers,
    fetch_following,
    fetch_serving,
    following,
    handover,
    inquiry,
    membership,
    own_entry,
    proposals,
    reads,
    remote_reads,
    snapshot_following,
    snapshot_serving,
    timers,
    vote,
)
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.epoch_state import NEVER_MS
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import (
    DiskLow,
    Event,
    FailureReason,
    LogFlushed,
    PrefixObsolete,
    Proposed,
    ReadAbandoned,
    ReadRequested,
    RequestAbandoned,
    RequestFailed,
    RequestHurried,
    RequestReceived,
    ResponseReceived,
    ShutdownRequested,
    SnapshotCreated,
    SnapshotInstalled,
    SnapshotRejected,
    StorageFailed,
    TimerExpired,
)
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    AlterQuorumRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ReadOffsetRequest,
    ReadOffsetResponse,
    RemoveVoterRequest,
    ResignRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.raft.outputs import FlushLog, HaltReason, Output, ReadFailed
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.raft.transitions import become_follower, become_unattached
from quorum_node.records.control import VotersRecord
from quorum_node.records.snapshot_id import SnapshotId


class Replica(ReplicaState):
    """The core. `now_ms` of all calls is one monotonic clock in milliseconds."""

    def step(self, event: Event, now_ms: float) -> list[Output]:
        """Handle one event; the outputs must be executed strictly in order.

        After a Halt there are no more outputs, except refusals of proposals and reads.
        """
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        out: list[Output] = []
        self.out = out
        if self.halted:
            self._refuse_halted(event)
            return out
        if not self.started:
            self._start()
            self.started = True
        _HANDLERS[type(event)](self, event)
        self._settle()
        return out

    def next_deadline_ms(self) -> float | None:
        """When a TimerExpired is due; None: not before another event."""
        if not self.started:
            return self.now_ms
        deadline_ms = timers.next_deadline_ms(self)
        return None if deadline_ms == NEVER_MS else deadline_ms

    def describe(self, now_ms: float) -> ReplicaDescription:
        """A description for the admin API and metrics."""
        self.now_ms = max(self.now_ms, now_ms)
        return describe.describe(self)

    def voters_at(self, end_offset: int) -> VotersRecord | None:
        """The voters record for a snapshot of the state before `end_offset`; None without one.

        `end_offset` must not precede the newest snapshot that this replica has or began with.
        """
        entries = self.voters.before(end_offset)
        entry, size = entries[-1], len(entries[-1].voters)
        if entry.offset < 0:
            return None
        needed = entry.record.initial_voters
        if needed is not None and any(self.forms(each) for each in entries):
            # The quorum may have become smaller since its formation. The snapshot has to state that
            # it is formed.
            needed = min(needed, size)
        position = (entry.offset, entry.epoch)
        return replace(entry.record, initial_voters=needed, log_position=position)

    def snapshots_in_use(self) -> frozenset[SnapshotId]:
        """Snapshots that other replicas are downloading from this leader: they must not be deleted now."""
        return snapshot_serving.downloaded_now(self)

    def _start(self) -> None:
        """Resume from the durable state; a single voter elects itself at once."""
        voters = self.voters.latest.voters
        if self.may_campaign() and election.is_only_voter(self):
            election.start_candidacy(self)
            return
        led = self.voted == self.key and self.remembered_leader_id == self.key.id
        leader = None if led else voters.newest(self.remembered_leader_id)
        endpoint = self.endpoint_of(leader.key) if leader is not None else None
        if leader is not None and endpoint is not None and leader.key != self.key:
            become_follower(self, self.epoch, leader.key.id, endpoint)
        else:
            become_unattached(self, self.epoch)

    def _settle(self) -> None:
        """Work after any event: fetch, look for the leader, stop."""
        if self.remote_reads and remote_reads.proceed(self):
            _report_round(self)
        if self.voters_changes_seen != self.voters_changes:
            own_entry.voters_changed(self)
        role = self.role
        if type(role) is Leader:
            if alter_quorum.is_busy(self, role):
                alter_quorum.proceed(self, role)
                if self.role is not role:
                    return
            if self.asks_for_itself:
                own_entry.update_as_leader(self, role)
            if self.log_end > role.answered_end_offset:
                # Followers first, then the own disk: both run concurrently.
                role.answered_end_offset = self.log_end
                fetch_answers.answer_voters(self, role)
                self.out.append(FlushLog())
                fetch_answers.answer_observers(self, role)
            if role.handover is None and handover.should_not_lead(self):
                handover.hand_over_if_possible(self, role)
            elif role.handover is not None:
                handover.finish_if_ready(self, role)
            elif role.begin_deadline_ms is not None and role.begin_deadline_ms <= self.now_ms:
                if role.unendorsed:
                    begin_end_epoch.send_begin(self, role)
                else:
                    role.begin_deadline_ms = None
            if self.leader_is_unsaved and role.own_epoch_committed:
                self.schedule_leader_save(self.now_ms)
        elif self.stopping:
            done = not self.is_voter and not self._ends_are_out()
            if done or self.leader_id != NO_LEADER:
                self.halt(HaltReason.SHUTDOWN, "asked to stop")
        elif type(role) is Follower:
            fetch_following.fetch_if_ready(self, role)
            if self.asks_for_itself:
                own_entry.ask_if_due(self, role)
        elif discovery.is_searching(self):
            discovery.search(self)
        if not self.stopping and not self.halted:
            discover_brokers.announce(self)

    def _ends_are_out(self) -> bool:
        sent = self.outstanding.values()
        return any(isinstance(each.request, EndQuorumEpochRequest) for each in sent)

    def _refuse_halted(self, event: Event) -> None:
        if isinstance(event, Proposed):
            proposals.propose(self, event.proposal_id, event.records)
        elif isinstance(event, ReadRequested):
            self.out.append(ReadFailed(event.read_id, RaftError.STORAGE_FAILED))


def _on_request(replica: Replica, event: RequestReceived) -> None:
    _REQUESTS[type(event.request)](replica, event.request_id, event.request)


def _on_abandoned(replica: Replica, event: RequestAbandoned) -> None:
    leader = replica.role
    if isinstance(leader, Leader):
        leader.parked.pop(event.request_id, None)
        reads.abandon_read(replica, request_id=event.request_id)
        membership.abandon_change(replica, event.request_id)
        alter_quorum.abandon_alteration(leader, event.request_id)
        if leader.handover is not None and leader.handover.request_id == event.request_id:
            leader.handover.request_id = None


def _on_hurried(replica: Replica, event: RequestHurried) -> None:
    leader = replica.role
    if isinstance(leader, Leader):
        fetch_answers.answer_early(replica, leader, event.request_id)


def _on_response(replica: Replica, event: ResponseReceived) -> None:
    sent = replica.outstanding.pop(event.correlation, None)
    if sent is None:
        return
    if sent.peer in replica.gossip.unannounced:
        replica.gossip.announce_soon(replica.now_ms)
    match sent.request, event.response:
        case FetchRequest(), FetchResponse() as response:
            if not fetch_following.handle_fetch_response(replica, event.correlation, response):
                inquiry.answered(replica, event.correlation)
                discovery.handle_search_response(replica, sent, event.correlation, response)
        case FetchSnapshotRequest(), FetchSnapshotResponse() as response:
            snapshot_following.handle_part(replica, event.correlation, response)
        case VoteRequest() as request, VoteResponse() as response:
            election.handle_vote_response(replica, sent, request, response)
        case ReadOffsetRequest(), ReadOffsetResponse() as response:
            remote_reads.handle_read_offset_response(replica, sent, event.correlation, response)
        case BeginQuorumEpochRequest(), BeginQuorumEpochResponse() as response:
            begin_end_epoch.handle_begin_response(replica, sent, response)
        case EndQuorumEpochRequest(), EndQuorumEpochResponse() as response:
            handover.handle_end_response(replica, sent, response)
        case DiscoverBrokersRequest() as request, DiscoverBrokersResponse() as response:
            discover_brokers.handle_discover_response(replica, sent, request, response)
        case ApiVersionsRequest(), ApiVersionsResponse() as response:
            membership.probe_answered(replica, event.correlation, response)
        case ((UpdateVoterRequest() | AddVoterRequest()), VoterChangeResponse() as response):
            own_entry.answered(replica, sent, event.correlation, response)


def _on_failure(replica: Replica, event: RequestFailed) -> None:
    sent = replica.outstanding.pop(event.correlation, None)
    if sent is None:
        return
    if sent.peer is not None and event.reason is not FailureReason.UNSUPPORTED:
        replica.gossip.address_failed(sent.peer, sent.destination)
    match sent.request:
        case FetchRequest():
            reason: FailureReason = event.reason
            if not following.no_answer(replica, event.correlation, reason):
                discovery.handle_search_failure(replica, event.correlation)
                inquiry.not_answered(replica, event.correlation, reason)
        case FetchSnapshotRequest():
            snapshot_following.part_failed(replica, event.correlation, event.reason)
        case VoteRequest() as request:
            election.handle_vote_failure(replica, sent, request, event.reason)
        case ReadOffsetRequest():
            remote_reads.handle_read_offset_failure(replica, event.correlation, event.reason)
        case DiscoverBrokersRequest():
            discover_brokers.handle_discover_failure(replica, sent, event.reason)
        case ApiVersionsRequest():
            membership.probe_answered(replica, event.correlation, None)
        case UpdateVoterRequest() | AddVoterRequest():
            own_entry.answered(replica, sent, event.correlation, None)


def _on_proposed(replica: Replica, event: Proposed) -> None:
    proposals.propose(replica, event.proposal_id, event.records)


def _on_read(replica: Replica, event: ReadRequested) -> None:
    leader = replica.role
    if not isinstance(leader, Leader):
        remote_reads.request_remote_read(replica, event.read_id)
    elif reads.request_read(replica, leader, event.read_id):
        _report_round(replica)


def _on_read_offset(replica: Replica, request_id: int, request: ReadOffsetRequest) -> None:
    if reads.handle_read_offset(replica, request_id, request):
        _report_round(replica)


def _report_round(replica: Replica) -> None:
    """A read opened a new answer round."""
    leader = replica.role
    assert isinstance(leader, Leader)
    fetch_answers.report_round(replica, leader)


def _on_flushed(replica: Replica, event: LogFlushed) -> None:
    end_offset = min(event.end_offset, replica.log_end)
    if end_offset <= replica.durable_end and type(replica.role) is not Leader:
        return
    replica.note_durable(end_offset)
    leader = replica.role
    if type(leader) is Leader:
        commit.advance_as_leader(replica, leader)
        fetch_answers.answer_witnesses(replica, leader)
        membership.resign_if_removed(replica)


def _on_describe(replica: Replica, request_id: int, request: DescribeQuorumRequest) -> None:
    describe.handle_describe(replica, request_id)


_REQUESTS: dict[type, Callable[[Replica, int, Any], None]] = {
    FetchRequest: fetch_serving.handle_fetch,
    FetchSnapshotRequest: snapshot_serving.handle_fetch_snapshot,
    VoteRequest: vote.handle_vote,
    BeginQuorumEpochRequest: begin_end_epoch.handle_begin,
    EndQuorumEpochRequest: begin_end_epoch.handle_end,
    DescribeQuorumRequest: _on_describe,
    DiscoverBrokersRequest: discover_brokers.handle_discover_brokers,
    ReadOffsetRequest: _on_read_offset,
    AddVoterRequest: membership.handle_add_voter,
    RemoveVoterRequest: membership.handle_remove_voter,
    UpdateVoterRequest: membership.handle_update_voter,
    AlterQuorumRequest: alter_quorum.handle_alter_quorum,
    ResignRequest: handover.handle_resign,
}


def _on_timer(replica: Replica, event: TimerExpired) -> None:
    timers.expire(replica)


def _on_storage_failed(replica: Replica, event: StorageFailed) -> None:
    reason = HaltReason.STORAGE_FAILED
    if event.disk_full:
        reason = HaltReason.DISK_FULL
    elif event.out_of_resources:
        reason = HaltReason.OUT_OF_RESOURCES
    handover.storage_failed(replica, event.detail, reason)


def _on_disk_low(replica: Replica, event: DiskLow) -> None:
    handover.note_space(replica, is_low=event.low)
    replica.disk_low = event.low


def _on_shutdown(replica: Replica, event: ShutdownRequested) -> None:
    handover.request_shutdown(replica)


def _on_read_abandoned(replica: Replica, event: ReadAbandoned) -> None:
    reads.abandon_read(replica, read_id=event.read_id)
    remote_reads.abandon_remote_read(replica, event.read_id)


_HANDLERS: dict[type, Callable[[Replica, Any], None]] = {
    RequestReceived: _on_request,
    RequestAbandoned: _on_abandoned,
    RequestHurried: _on_hurried,
    ResponseReceived: _on_response,
    RequestFailed: _on_failure,
    Proposed: _on_proposed,
    ReadRequested: _on_read,
    ReadAbandoned: _on_read_abandoned,
    LogFlushed: _on_flushed,
    StorageFailed: _on_storage_failed,
    DiskLow: _on_disk_low,
    SnapshotCreated: lambda replica, event: snapshot_following.created(replica, event.id),
    SnapshotInstalled: lambda replica, event: snapshot_following.installed(
        replica, event.id, event.voters, event.kraft_version
    ),
    SnapshotRejected: lambda replica, event: snapshot_following.rejected(replica, event.id),
    PrefixObsolete: lambda replica, event: snapshot_following.prefix_obsolete(replica, event.id),
    TimerExpired: _on_timer,
    ShutdownRequested: _on_shutdown,
}
