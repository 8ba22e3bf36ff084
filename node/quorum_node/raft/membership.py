"""Changes of the voter set on the leader: AddVoter, RemoveVoter, UpdateVoter.

Owns their preconditions and steps. Must not know who requests them (the operator, a person).
Source: KIP-853; KIP-595, "Observer Promotion" (K595-26).

Any change:
1. The receiver is the leader, the cluster id matches, and no handover is in progress (else
NOT_QUORUM_LEADER, ...).
2. No other change is in progress, and the latest voters record is committed.
3. A record of the leader's own epoch is committed.
4. The expected position of the request, if given, is that of the committed voters record.
5. The change fits the set (present, absent, not the last voter) and is safe (`safety.py`).
6. The new set is appended in one record that changes one key. It takes effect at once.
7. The response follows the commit. After a timeout it is REQUEST_TIMED_OUT, and the outcome is
open.
AddVoter, between 5 and 6:
a. An ApiVersions request to the new voter checks that it is reachable and supports the quorum's
kraft.version.
b. The leader announces itself with BeginQuorumEpoch to a new voter that does not fetch, as to
every voter that does not.
c. Catch-up rounds: in each one the new voter fetches up to the end that the log had at the start of
the round. It has caught up after a round that was shorter than the election timeout.
d. 1 to 5 are checked again. If a to c take longer than the timeout: REQUEST_TIMED_OUT, nothing is
changed.

A change of a UUID is never one record: it is an add and a remove. A leader that is asked to add
another key of its own id hands over leadership first. A leader that removes itself does not count
itself any more, and resigns after the commit.
"""

from dataclasses import replace

from quorum_node.raft import handover, safety
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.endpoint_gossip import is_target
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import ChangeKind, ChangePhase, Leader, PendingChange
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import (
    AddVoterRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
    VotersPosition,
    voter_entry,
)
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.safety import Refusal
from quorum_node.raft.voters import VoterSet, tombstones_after
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, Endpoint, ReplicaKey

ChangeRequest = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest


def handle_add_voter(replica: ReplicaState, request_id: int, request: AddVoterRequest) -> None:
    """Start an add. A tombstone prevents a replica from joining by itself, but not from being added."""
    refusal = (
        _precondition(replica, request)
        or _planned_elsewhere(replica)
        or safety.check_add(replica, request.voter, request.endpoints, request.count_newcomer)
    )
    if refusal is None and not request.ack_when_committed:
        refusal = safety.check_self_join(replica, request.voter)
    if refusal is not None:
        refuse(replica, request_id, refusal)
        return
    leader = replica.role
    assert isinstance(leader, Leader)
    if request.voter.id == replica.key.id and not handover.electable(replica, leader):
        message = "the leader would have to hand over first, but no other voter can become leader: add one"
        refuse(replica, request_id, Refusal(RaftError.UNSAFE_CHANGE, message))
        return
    if request.voter.id == replica.key.id:
        message = "the leader hands over first, as the new voter has its own id"
        _hand_over_leadership_first(replica, leader, request_id, message)
        return
    leader.change = PendingChange(
        kind=ChangeKind.ADD,
        request_id=request_id,
        voter=request.voter,
        endpoints=request.endpoints,
        deadline_ms=replica.now_ms + request.timeout_ms,
        phase=ChangePhase.PROBING,
        count_newcomer=request.count_newcomer,
        ack_when_committed=request.ack_when_committed,
    )
    _probe(replica, leader.change)


def handle_remove_voter(
    replica: ReplicaState, request_id: int, request: RemoveVoterRequest
) -> None:
    """Append the set without that key."""
    refusal = (
        _precondition(replica, request)
        or _planned_elsewhere(replica)
        or safety.check_remove(replica, request.voter)
    )
    if refusal is not None:
        refuse(replica, request_id, refusal)
        return
    voters = replica.voters.latest.voters.removed(request.voter)
    leader = replica.role
    assert isinstance(leader, Leader)
    if request.voter == replica.key and safety.needs_witness(replica, leader, voters):
        # Otherwise its last records might be on the witness alone, and no other voter could become
        # leader.
        message = (
            "the leader hands over first, as the remaining voters need a witness for a majority"
        )
        _hand_over_leadership_first(replica, leader, request_id, message)
        return
    _append_voters(replica, request_id, ChangeKind.REMOVE, request, voters)


def _hand_over_leadership_first(
    replica: ReplicaState, leader: Leader, request_id: int, message: str
) -> None:
    """Refuse the request and hand over leadership; the caller repeats it on the next leader.

    Only a voter that has caught up can be elected.
    """
    if not handover.may_take_over(replica, leader):
        behind = "; no other voter that can become leader has caught up yet: try again later"
        refuse(replica, request_id, Refusal(RaftError.UNSAFE_CHANGE, message + behind))
        return
    refuse(replica, request_id, Refusal(RaftError.NOT_QUORUM_LEADER, message))
    handover.start(replica, leader, None, None)


def begin_planned_add(
    replica: ReplicaState,
    leader: Leader,
    voter: ReplicaKey,
    endpoints: tuple[Endpoint, ...],
    timeout_ms: float,
) -> None:
    """A step of an AlterQuorum: an AddVoter without a waiting request."""
    if safety.check_add(replica, voter, endpoints, count_newcomer=False) is not None:
        _note_failure(leader, voter)  # the plan retries; its status text states the reason
        return
    leader.change = PendingChange(
        kind=ChangeKind.ADD,
        request_id=None,
        voter=voter,
        endpoints=endpoints,
        deadline_ms=replica.now_ms + timeout_ms,
        phase=ChangePhase.PROBING,
        planned=True,
    )
    _probe(replica, leader.change)


def give_up_planned_add(leader: Leader) -> None:
    """Give up an add that does not progress, so that another replica can be tried."""
    if leader.change is not None:
        _note_failure(leader, leader.change.voter)
    leader.change = None


def _note_failure(leader: Leader, voter: ReplicaKey) -> None:
    leader.plan_failures[voter] = leader.plan_failures.get(voter, 0) + 1


def begin_planned_removal(replica: ReplicaState, leader: Leader, voter: ReplicaKey) -> None:
    """A step of an AlterQuorum: a RemoveVoter without a waiting request."""
    if safety.check_remove(replica, voter) is not None:
        _note_failure(leader, voter)
        return
    voters = replica.voters.latest.voters.removed(voter)
    _append_change(replica, leader, ChangeKind.REMOVE, voter, voters, planned=True)


def handle_update_voter(
    replica: ReplicaState, request_id: int, request: UpdateVoterRequest
) -> None:
    """Append the set with that voter's new endpoints. Unchanged endpoints need no record."""
    refusal = safety.check_endpoints(request.voter, request.endpoints)
    if refusal is None and request.cluster_id is None and not request.by_operator:
        refusal = Refusal(RaftError.INVALID_CLUSTER_ID, "the request has to name the cluster id")
    refusal = refusal or _precondition(replica, request) or safety.check_update(replica, request)
    if refusal is not None:
        refuse(replica, request_id, refusal)
        return
    voter = replica.voters.latest.voters.get(request.voter)
    assert voter is not None
    if voter.endpoints == request.endpoints:
        position = replica.committed_position()
        replica.respond(
            request_id,
            VoterChangeResponse(RaftError.NONE, replica.current_leader(), "", position),
        )
        return
    voters = replica.voters.latest.voters.updated(request.voter, request.endpoints)
    _append_voters(replica, request_id, ChangeKind.UPDATE, request, voters)


def update_own_endpoints(replica: ReplicaState, leader: Leader) -> None:
    """Change the leader's own endpoints, without a waiting request (K853-07)."""
    voters = replica.voters.latest.voters.updated(replica.key, replica.config.endpoints)
    leader.change = PendingChange(
        kind=ChangeKind.UPDATE,
        request_id=None,
        voter=replica.key,
        endpoints=(),
        deadline_ms=float("inf"),
        phase=ChangePhase.COMMITTING,
        position=_append(replica, voters),
    )


def may_change(replica: ReplicaState, leader: Leader) -> bool:
    """Whether the leader may start a change on its own initiative now."""
    return (
        leader.change is None
        and leader.handover is None
        and leader.own_epoch_committed
        and replica.voters.latest_is_committed
        and not (replica.halted or replica.stopping or replica.disk_low)
    )


def probe_answered(
    replica: ReplicaState, correlation: int, response: ApiVersionsResponse | None
) -> None:
    """ApiVersions response of the new voter, or None if the request failed (it is sent again later)."""
    leader = replica.role
    if not isinstance(leader, Leader) or leader.change is None:
        return
    change = leader.change
    if change.probe != correlation or change.phase is not ChangePhase.PROBING:
        return
    change.probe = None
    if response is None or response.error is not RaftError.NONE:
        change.retry_deadline_ms = replica.now_ms + replica.config.retry_backoff_ms * 5
        return
    if not response.min_kraft_version <= replica.kraft_version <= response.max_kraft_version:
        supported = f"{response.min_kraft_version} to {response.max_kraft_version}"
        _abort(replica, leader, Refusal(RaftError.UNSUPPORTED_VERSION, f"supports {supported}"))
        return
    lacking = KEEPS_TARGET_VOTERS & ~response.private_features
    if change.planned and lacking:
        message = f"{change.voter} would drop the target voters if it became leader"
        _abort(replica, leader, Refusal(RaftError.VOTER_LACKS_FEATURE, message))
        return
    change.private_features = response.private_features
    change.phase = ChangePhase.CATCHING_UP
    change.round_target = replica.log_end
    change.round_started_ms = replica.now_ms
    _announce(replica, leader, change.voter)
    replica_fetched(replica, leader, change.voter)


def _announce(replica: ReplicaState, leader: Leader, voter: ReplicaKey) -> None:
    """Send BeginQuorumEpoch to a replica that is being added and does not fetch.

    It may have been a voter before, and believe in a false leader of this epoch. While it does not
    know that it was removed, it never forgets a leader by itself.
    """
    progress = leader.progress.get(voter)
    if progress is None or not safety.is_fetching(replica, progress):
        leader.await_endorsement((voter,), replica.now_ms)


def endpoint_of_new_voter(
    replica: ReplicaState, leader: Leader, key: ReplicaKey
) -> Endpoint | None:
    """Where a replica listens that is being added, or is a target voter; None for any other one."""
    change = leader.change
    if change is not None and change.kind is ChangeKind.ADD and change.voter == key:
        return voter_entry(key, change.endpoints).endpoint(CONTROLLER)
    return replica.endpoint_of(key) if is_target(key, replica.target_voters()) else None


def replica_fetched(replica: ReplicaState, leader: Leader, key: ReplicaKey) -> None:
    """Check the catch-up round; called for every fetch while a change is in progress."""
    change = leader.change
    if change is None or change.phase is not ChangePhase.CATCHING_UP or change.voter != key:
        return
    progress = leader.progress.get(key)
    if progress is None or progress.last_fetch_ms is None:
        return
    if progress.end_offset < change.round_target:
        return
    if not safety.is_fetching(replica, progress):
        return
    round_ms = replica.now_ms - change.round_started_ms
    lag = replica.log_end - progress.end_offset
    if round_ms >= replica.config.election_timeout_ms or lag > replica.config.catch_up_max_lag:
        change.round_target = replica.log_end
        change.round_started_ms = replica.now_ms
        return
    refusal = safety.check_add(replica, change.voter, change.endpoints, change.count_newcomer)
    if refusal is not None:
        _abort(replica, leader, refusal)
        return
    entry = voter_entry(change.voter, change.endpoints)
    entry = replace(entry, private_features=change.private_features)
    added = replica.voters.latest.voters.added(entry)
    change.phase = ChangePhase.COMMITTING
    change.position = _append(replica, added)
    leader.await_endorsement((change.voter,), replica.now_ms)
    if not change.ack_when_committed and change.request_id is not None:
        replica.respond(
            change.request_id,
            VoterChangeResponse(RaftError.NONE, replica.current_leader(), "", change.position),
        )
        change.request_id = None


def expire_change(replica: ReplicaState, leader: Leader) -> None:
    """The request for the change has timed out."""
    change = leader.change
    if change is None or replica.now_ms < change.deadline_ms:
        return
    if change.phase is not ChangePhase.COMMITTING:
        detail = f"nothing was changed: {change.phase.value}"
        _abort(replica, leader, Refusal(RaftError.REQUEST_TIMED_OUT, detail))
        return
    change.deadline_ms = float("inf")
    if change.request_id is not None:
        message = "the change was written but is not committed yet; the outcome is open"
        refuse(replica, change.request_id, Refusal(RaftError.REQUEST_TIMED_OUT, message))
        change.request_id = None


def retry_probe(replica: ReplicaState, leader: Leader) -> None:
    """Send the probe to the new voter's endpoint again."""
    change = leader.change
    if change is None or change.phase is not ChangePhase.PROBING or change.probe is not None:
        return
    if replica.now_ms < change.retry_deadline_ms:
        return
    _probe(replica, change)


def abandon_change(replica: ReplicaState, request_id: int) -> None:
    """The requester's connection closed: a change that is not written yet is dropped."""
    leader = replica.role
    if not isinstance(leader, Leader) or leader.change is None:
        return
    if leader.change.request_id == request_id:
        leader.change.request_id = None
        if leader.change.phase is not ChangePhase.COMMITTING:
            leader.change = None


def resign_if_removed(replica: ReplicaState) -> None:
    """A leader whose removal is committed sends EndQuorumEpoch and resigns."""
    if replica.is_voter:
        return
    leader = replica.role
    if isinstance(leader, Leader) and replica.voters.latest_is_committed:
        handover.end_epoch(replica, leader)


def refusal_of_leader(replica: ReplicaState, cluster_id: str | None) -> Refusal | None:
    """Why this replica can't serve the request as leader, or None."""
    leader = replica.role
    if cluster_id is not None and cluster_id != replica.cluster_id:
        return Refusal(RaftError.INVALID_CLUSTER_ID, f"this cluster is {replica.cluster_id}")
    if not isinstance(leader, Leader) or leader.handover is not None or replica.halted:
        return Refusal(RaftError.NOT_QUORUM_LEADER, "")
    return None


def _precondition(replica: ReplicaState, request: ChangeRequest) -> Refusal | None:
    refusal = refusal_of_leader(replica, request.cluster_id)
    if refusal is not None:
        return refusal
    leader = replica.role
    assert isinstance(leader, Leader)
    if leader.change is not None:
        change = leader.change
        message = f"{change.kind.value} {change.voter}: {change.phase.value}"
        return Refusal(RaftError.VOTER_CHANGE_PENDING, message)
    if not replica.voters.latest_is_committed:
        offset = replica.voters.latest.offset
        message = f"the voters record at {offset} is not committed"
        return Refusal(RaftError.VOTER_CHANGE_PENDING, message)
    if not leader.own_epoch_committed:
        return Refusal(RaftError.EPOCH_NOT_COMMITTED, f"epoch {replica.epoch}")
    if replica.disk_low:
        return Refusal(RaftError.DISK_LOW, "")
    if request.expected is not None and request.expected != replica.committed_position():
        now = replica.committed_position()
        message = f"the voters record is at offset {now.offset}, epoch {now.epoch}"
        return Refusal(RaftError.STALE_VOTERS_POSITION, message)
    return None


def _planned_elsewhere(replica: ReplicaState) -> Refusal | None:
    """Refusal of single changes while an AlterQuorum is in progress."""
    target = replica.voters.latest.record.target_voters
    if target is None:
        return None
    ids = ", ".join(str(key.id) for key in target)
    message = f"towards the target voters [{ids}]; cancel the target first, or change it"
    return Refusal(RaftError.ALTERATION_PENDING, message)


def _probe(replica: ReplicaState, change: PendingChange) -> None:
    endpoint = voter_entry(change.voter, change.endpoints).endpoint("CONTROLLER")
    assert endpoint is not None
    change.probe = replica.send(endpoint, ApiVersionsRequest(), change.voter)


def _append_voters(
    replica: ReplicaState,
    request_id: int,
    kind: ChangeKind,
    request: RemoveVoterRequest | UpdateVoterRequest,
    voters: VoterSet,
) -> None:
    leader = replica.role
    assert isinstance(leader, Leader)
    change = _append_change(replica, leader, kind, request.voter, voters)
    change.request_id = request_id
    change.deadline_ms = replica.now_ms + request.timeout_ms


def _append_change(
    replica: ReplicaState,
    leader: Leader,
    kind: ChangeKind,
    voter: ReplicaKey,
    voters: VoterSet,
    planned: bool = False,
) -> PendingChange:
    change = leader.change = PendingChange(
        kind=kind,
        request_id=None,
        voter=voter,
        endpoints=(),
        deadline_ms=float("inf"),
        phase=ChangePhase.COMMITTING,
        planned=planned,
        position=_append(replica, voters),
    )
    return change


def _append(replica: ReplicaState, voters: VoterSet) -> VotersPosition:
    """Append one voters record that changes one key; its other fields stay."""
    latest = replica.voters.latest
    changed = set(latest.voters.ordered_keys) ^ set(voters.ordered_keys)
    assert len(changed) <= 1, f"{len(changed)} keys change in one record"
    assert replica.voters.latest_is_committed, "a second change before the first is committed"
    record: VotersRecord = replace(
        latest.record,
        voters=voters.voters,
        tombstones=tombstones_after(latest.record.tombstones, latest.voters, voters),
    )
    offset = append_control(replica, (record,))
    return VotersPosition(offset, replica.epoch)


def refuse(replica: ReplicaState, request_id: int, refusal: Refusal) -> None:
    """Answer a request for a change with the reason of its refusal."""
    message = f"{refusal.error.value}: {refusal.message}" if refusal.message else ""
    replica.respond(
        request_id,
        VoterChangeResponse(
            refusal.error, replica.current_leader(), message or refusal.error.value
        ),
    )


def _abort(replica: ReplicaState, leader: Leader, refusal: Refusal) -> None:
    change = leader.change
    leader.change = None
    if change is not None and change.planned:
        _note_failure(leader, change.voter)
    if change is not None and change.request_id is not None:
        refuse(replica, change.request_id, refusal)
