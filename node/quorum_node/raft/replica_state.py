"""The state of a replica, and the primitive operations that all rules use.

Owns the fields, the list of outputs, and the correlations of requests in flight. Must not know any
rule of the protocol: rules are functions in the other modules, one file per RPC, each with the
replica as first argument.
"""

from collections.abc import Callable
from dataclasses import dataclass

from quorum_node.made_often import made_often
from quorum_node.raft.config import CONTROLLER, RaftConfig
from quorum_node.raft.endpoint_gossip import EndpointGossip
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.raft.epoch_state import EpochState
from quorum_node.raft.leadership import Leader
from quorum_node.raft.log_positions import LogPositions
from quorum_node.raft.log_state import LogState
from quorum_node.raft.messages import (
    NO_LEADER,
    CurrentLeader,
    OutboundRequest,
    Response,
    VotersPosition,
    voter_entry,
)
from quorum_node.raft.outputs import (
    Halt,
    HaltReason,
    Output,
    PersistQuorumState,
    Respond,
    RoleChanged,
    Send,
    VotersChanged,
)
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Link,
    Prospective,
    Resigned,
    Unattached,
)
from quorum_node.raft.unfinished import Claim, Discovery, Partial, RemoteRead
from quorum_node.raft.voters import VoterHistory, VotersEntry, VoterSet, snapshot_entry
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, decode_control
from quorum_node.records.identity import Endpoint, ReplicaKey

Role = Unattached | Follower | Prospective | Candidate | Leader | Resigned


@made_often
@dataclass(frozen=True, slots=True)
class Outstanding:
    """A request in flight. `peer` None: the server at a bootstrap endpoint."""

    request: OutboundRequest
    peer: ReplicaKey | None
    epoch: int
    destination: Endpoint

    @property
    def peer_id(self) -> int:
        """Id of the peer; NO_LEADER for a server at a bootstrap endpoint."""
        return NO_LEADER if self.peer is None else self.peer.id


class ReplicaState(LogPositions, EpochState):
    """Fields and primitive operations. `now_ms` is the time of the event that is being handled."""

    def __init__(
        self,
        config: RaftConfig,
        key: ReplicaKey,
        state: QuorumState | None,
        log: LogState,
        jitter: Callable[[], float],
        wall_clock_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        state = state or QuorumState()
        LogPositions.__init__(self, state, log)
        EpochState.__init__(self, state, self.epochs.last_epoch)
        self.config = config
        self.controller_endpoint = config.controller_endpoint
        self.key = key
        self.jitter = jitter
        self.wall_clock_ms = wall_clock_ms
        self.now_ms = 0.0
        self.out: list[Output] = []
        self.started = False
        self.halted = False
        self.stopping = False
        self.stop_deadline_ms: float | None = None
        self.disk_low = False
        self.hands_over_for_space = False
        """Whether it hands over if it leads with a low disk: once in each time of a low disk."""
        self.campaigns = 0
        self.refused_shorter: ReplicaKey | None = None
        """Candidates with a less up-to-date log since the last response of a leader."""
        self.planned_handovers = 0
        self.hand_over_again_ms = 0.0

        self.cluster_id = state.cluster_id or config.cluster_id
        self.formed = state.formed

        self.leader_high_watermark = -1
        self.last_leader_contact_ms: float | None = None
        self.as_of_ms: float | None = None
        """Everything that the leader had committed at that time is committed here (not on a leader)."""
        self.remote_reads: list[RemoteRead] = []

        self.role: Role = Unattached(None)
        self.voters_changes = 0
        self.voters_changes_seen = -1  # by own_entry
        self.asks_for_itself = False  # to change its entry in the voters record: own_entry
        self.own_request: int | None = None
        self.own_request_after_ms = 0.0
        self._forget_peers()
        self.outstanding: dict[int, Outstanding] = {}
        self._next_correlation = 1
        self.partial: Partial | None = None
        if log.partial is not None:
            self.partial = Partial(log.partial[0], config.snapshot_part_bytes, log.partial[1])
        self.voters = self._load_voters(state, log)
        self.voters_are_committed(self.voters.committed)
        self.is_voter = key in self.voters.latest.voters
        self.has_newer_key = self._has_newer_key()
        self.gossip.use_voters(self.voters_with_keys(), key, 0.0, self.target_voters())

    def _forget_peers(self) -> None:
        """Reset what this run has learned from peers."""
        self.discovery = Discovery()
        self.claim: Claim | None = None
        self.asked_ms: dict[Endpoint, float] = {}
        self.refused_by: set[ReplicaKey | tuple[str, int]] = set()  # by `cluster_identity.py`
        self.refused_since_ms: float | None = None  # by all, while no voter is known
        self.cluster_is_confirmed = False
        self.foreign_cluster_id: str | None = None
        """Cluster id that one of them reported as its own."""
        self.gossip = EndpointGossip()
        self.boot_timestamp_ms = self.config.boot_timestamp_ms

    def _load_voters(self, state: QuorumState, log: LogState) -> VoterHistory:
        """Voters of the snapshot, then every record of the log after it; or those of quorum-state."""
        base = None
        if log.snapshot is not None and log.snapshot_voters is not None:
            base = snapshot_entry(log.snapshot, log.snapshot_voters)
        elif self.config.founder:
            founder = (voter_entry(self.key, self.config.endpoints),)
            base = VotersEntry(-1, -1, VoterSet(founder), VotersRecord(founder))
        elif self.config.static_voters and self.config.may_form:
            static = self.configured_voters()
            base = VotersEntry(-1, -1, static, VotersRecord(static.voters))
        history = VoterHistory(base)
        for data in log.control_batches:
            for batch in split_batches(data)[0]:
                for decoded in decode_records(batch):
                    control = decode_control(decoded)
                    if isinstance(control, KRaftVersion):
                        self.uses_kraft_version(control.level)
                    if isinstance(control, LeaderChange) and (
                        batch.header.leader_epoch == self.epoch
                        and self.remembered_leader_id == NO_LEADER
                    ):
                        self.set_epoch_leader(control.leader_id)
                    if isinstance(control, VotersRecord):
                        self.cluster_id = self.cluster_id or control.cluster_id
                        if decoded.offset > history.latest.offset:
                            history.append(decoded.offset, batch.header.leader_epoch, control)
        if state.current_voters and state.voters_offset > history.latest.offset:
            record = VotersRecord(
                state.current_voters,
                state.cluster_id,
                self.config.initial_voters,
                target_voters=state.target_voters,
                recovered_epoch=history.recovered_epoch,
            )
            history.reset(
                VotersEntry(
                    state.voters_offset, state.voters_epoch, VoterSet(state.current_voters), record
                )
            )
        history.commit(self.high_watermark)
        return history

    def configured_voters(self) -> VoterSet:
        """The static voters by id. Only the UUID of this replica is known."""
        voters = VoterSet(self.config.static_voters)
        return voters.identified(self.key)

    # -- what is known about the quorum

    @property
    def ids_only(self) -> bool:
        """Whether no voters record of a static quorum is known here (`static_quorum.py`)."""
        config = self.config
        return bool(config.static_voters) and config.may_form and self.voters.latest.offset < 0

    @property
    def leader_id(self) -> int:
        """Id of the current leader of `epoch`, or NO_LEADER."""
        role = self.role
        if isinstance(role, Leader):
            return self.key.id
        if isinstance(role, Follower):
            return role.leader_id
        if isinstance(role, Prospective) and role.fallback is not None:
            return role.fallback.leader_id
        return NO_LEADER

    @property
    def known_leader_id(self) -> int:
        """Leader of the current epoch, even if this follower has given it up since, or NO_LEADER."""
        known = self.leader_id
        return known if known != NO_LEADER else self.remembered_leader_id

    @property
    def bound_leader_id(self) -> int:
        """The leader that excludes any other one in the current epoch, or NO_LEADER. See `epoch_state.py`."""
        return self.remembered_leader_id if self.follows_hearsay() else self.known_leader_id

    def follows_hearsay(self) -> bool:
        """Whether it follows a leader that only others have named."""
        role = self.role
        followed = role.fallback if isinstance(role, Prospective) else role
        return isinstance(followed, Follower) and followed.hearsay

    @property
    def reported_cluster_id(self) -> str | None:
        """Cluster id in requests. It is taken from a voters record even before its commit is known."""
        return self.cluster_id or self.voters.latest.record.cluster_id

    @property
    def recovered_epoch(self) -> int:
        """Epoch of the last recovery in the log, 0 for none."""
        return self.voters.recovered_epoch

    def current_leader(self) -> CurrentLeader:
        """Leader and epoch, as in every response."""
        role = self.role
        if isinstance(role, Leader):
            return CurrentLeader(self.key.id, self.epoch, self.controller_endpoint)
        if isinstance(role, Prospective) and role.fallback is not None:
            role = role.fallback
        if isinstance(role, Follower):
            return CurrentLeader(role.leader_id, self.epoch, role.endpoint)
        return CurrentLeader(NO_LEADER, self.epoch)

    def endpoint_of(self, key: ReplicaKey) -> Endpoint | None:
        """Controller listener of a voter, as last reported or from the latest voter set.

        Also that of a target voter, if it has been reported, and that of a voter whose removal is
        not committed.
        """
        voters = self.voters
        voter = voters.latest.voters.get(key) or voters.committed.voters.get(key)
        return self.gossip.address_of(key, voter.endpoint(CONTROLLER) if voter else None)

    def other_voters(self) -> list[ReplicaKey]:
        return [key for key in self.voters.latest.voters.ordered_keys if key != self.key]

    def other_counted_voters(self) -> set[ReplicaKey]:
        """The other voters of the latest set and of the committed one."""
        return set(self.voters.counted()) - {self.key}

    def may_have_to_vote(self) -> bool:
        """Whether it is a voter, or was one before a removal that, as far as it knows, is not committed."""
        return self.is_voter or self.key in self.voters.counted()

    def may_campaign(self) -> bool:
        """Whether it may start elections: a voter, the newest key of its id, and in working order.

        Two others still may, as their log may be the only one that is up to date (Ongaro's
        dissertation, 4.2.2). A voter whose removal is in its log but, as far as it knows, not
        committed; it does not count its own vote then. And a voter with a newer key of its id beside
        it, once it has refused a candidate with a shorter log. A witness never does, not even as
        the only voter.
        """
        if self.stopping or self.halted or self.config.witness or self.epoch >= MAX_EPOCH:
            return False
        if not self.may_have_to_vote():
            return False
        known = self.voters
        voters = (known.latest if self.is_voter else known.committed).voters
        return self.refused_shorter is not None or voters.is_newest(self.key)

    def _has_newer_key(self) -> bool:
        """Whether it is a voter, and a newer key of its id is one as well."""
        return self.is_voter and not self.voters.latest.voters.is_newest(self.key)

    def has_live_leader(self) -> bool:
        """Whether it is the leader, or follows one whose link is not closed and has not timed out.

        During a pre-vote because of a silent leader it still follows that leader.
        """
        role = self.role
        if isinstance(role, Leader):
            return True
        if isinstance(role, Prospective):
            doubted = role.fallback
            return (
                doubted is not None and doubted.link is Link.SILENT and doubted.is_live(self.now_ms)
            )
        return isinstance(role, Follower) and role.is_live(self.now_ms)

    def has_responsive_leader(self) -> bool:
        """Whether it is the leader, or follows one that responds. Then no pre-vote is granted."""
        role = self.role
        if not isinstance(role, Follower) or role.link is not Link.OPEN:
            return isinstance(role, Leader)
        silent = role.silence_deadline_ms is not None and role.silence_deadline_ms <= self.now_ms
        return not silent and role.is_live(self.now_ms)

    def voters_with_keys(self) -> tuple[ReplicaKey, ...]:
        """Voters with known keys: none while voters are known by id alone."""
        return () if self.ids_only else self.voters.latest.voters.ordered_keys

    def target_voters(self) -> tuple[ReplicaKey, ...]:
        """Target voters while an AlterQuorum is in progress; UUIDs may be missing."""
        return self.voters.latest.record.target_voters or ()

    # -- primitive operations

    def respond(self, request_id: int, response: Response) -> None:
        self.out.append(Respond(request_id, response))

    def send(
        self,
        destination: Endpoint,
        request: OutboundRequest,
        peer: ReplicaKey | None,
        timeout_ms: float | None = None,
    ) -> int:
        """Send a request; returns its correlation. `timeout_ms` None: the default timeout of requests."""
        correlation = self._next_correlation
        self._next_correlation = correlation + 1
        self.outstanding[correlation] = Outstanding(request, peer, self.epoch, destination)
        if timeout_ms is None:
            timeout_ms = self.config.request_timeout_ms
        self.out.append(Send(correlation, destination, request, timeout_ms))
        return correlation

    def halt(self, reason: HaltReason, detail: str) -> None:
        """Stop the replica. It acknowledges nothing after this."""
        if not self.halted:
            self.end(reason, detail)

    def stop_acknowledging(self) -> None:
        """Stop acknowledging; `end` follows."""
        self.halted = True

    def end(self, reason: HaltReason, detail: str) -> None:
        """Emit Halt, even if the replica has stopped acknowledging already."""
        self.halted = True
        self.out.append(Halt(reason, detail, self.key))

    def persist(self) -> None:
        """Make log and quorum-state durable before any output after this one."""
        committed = self.voters.committed
        leader_id = self.bound_leader_id
        self.mark_leader_saved(leader_id)
        self.out.append(
            PersistQuorumState(
                QuorumState(
                    leader_epoch=self.epoch,
                    leader_id=leader_id,
                    voted=self.voted,
                    cluster_id=self.cluster_id,
                    applied_offset=self.high_watermark,
                    current_voters=committed.voters.voters if committed.offset >= 0 else (),
                    target_voters=committed.record.target_voters,
                    voters_offset=committed.offset,
                    voters_epoch=committed.epoch,
                    formed=self.formed,
                )
            )
        )
        # The driver flushes the log first: everything appended so far is durable after this output.
        self.note_durable(self.log_end)

    def save_leader(self) -> None:
        """Save the leader of this epoch some time after a record of it is committed, unless it is saved.

        Until then the vote on the disk and the LeaderChange in the log identify the leader. So an
        election and its first commits don't wait for a write of quorum-state.
        """
        self.cancel_leader_save()
        leader_id = self.bound_leader_id
        if leader_id != NO_LEADER and self.saved_leader != (self.epoch, leader_id):
            self.persist()

    def set_role(self, role: Role) -> None:
        """Take a role that the transition table allows, and emit RoleChanged."""
        assert role.name in TRANSITIONS[self.role.name], f"{self.role.name} → {role.name}"
        self.role = role
        self.report_role()

    def report_role(self) -> None:
        self.out.append(RoleChanged(self.role.name, self.epoch, self.leader_id, self.is_voter))

    def emit_voters_changed(self) -> None:
        """Emit VotersChanged after the latest voter set, or its commit, changed."""
        self.voters_changes += 1
        latest = self.voters.latest
        was_voter, self.is_voter = self.is_voter, self.key in latest.voters
        self.has_newer_key = self._has_newer_key()
        self.gossip.use_voters(self.voters_with_keys(), self.key, self.now_ms, self.target_voters())
        self.out.append(
            VotersChanged(
                latest.voters.voters,
                latest.position,
                self.voters.latest_is_committed,
                latest.record.target_voters,
            )
        )
        if was_voter != self.is_voter:
            self.report_role()

    def voters_are_committed(self, entry: VotersEntry) -> None:
        """Whether formation and cluster id are known from committed voters."""
        if entry.offset >= 0:
            self.formed = self.formed or self.forms(entry)
            self.cluster_id = self.cluster_id or entry.record.cluster_id

    def forms(self, entry: VotersEntry) -> bool:
        """Whether a new quorum has all its initial voters with this set."""
        needed = entry.record.initial_voters
        needed = self.config.initial_voters if needed is None else needed
        return entry.offset >= 0 and len(entry.voters) >= needed

    def commit_voters(self) -> None:
        """Committed voters are saved in quorum-state; uncommitted ones are not (K595-04)."""
        entries = self.voters.commit(self.high_watermark)
        if entries:
            for entry in entries:
                self.voters_are_committed(entry)
            self.persist()
            self.emit_voters_changed()

    def committed_position(self) -> VotersPosition:
        return self.voters.committed.position

    def backoff_ms(self, failures: int) -> float:
        """Exponential, from retry_backoff to retry_backoff_max, shortened by up to a half."""
        config = self.config
        full: float = min(
            config.retry_backoff_max_ms, config.retry_backoff_ms * float(2 ** min(failures, 16))
        )
        return full * (1 - self.jitter() / 2)
