"""AlterQuorum on the leader: taking target voters, and going there one change at a time.

Owns the course of a request and of the plan. Must not choose the steps (`alteration.py`) nor make the
changes themselves (`membership.py`, `handover.py`).
Source: KIP-595, "AlterQuorum Request Handling" and "Reassignment Algorithm" (K595-23, K595-24).

A request:
1. The receiver leads and is not handing over; every voter keeps target voters as a leader.
2. The target is the one of the latest voters record: answered when that record is committed.
3. Another one, or null (cancel): the record is written again with the same voters and the new target,
   as soon as the record before it is committed. A planned add that is not written yet is dropped.
4. The answer follows the commit of the target, not the end of the plan.

The target is part of the voters record, so it is durable, is truncated with it, and whoever leads goes
on from there: a leader remembers nothing of a plan that a new leader would need. While there is a
target, AddVoter and RemoveVoter are refused; UpdateVoter changes no key and goes through.
"""

from dataclasses import replace

from quorum_node.raft import handover, membership, safety
from quorum_node.raft.alteration import (
    Add,
    Finish,
    HandOver,
    Observer,
    Remove,
    Situation,
    Step,
    Wait,
    compare,
    next_step,
)
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import ChangePhase, Leader, PendingAlteration, Progress
from quorum_node.raft.log_appends import append_control
from quorum_node.raft.messages import (
    AlterQuorumRequest,
    VoterChangeResponse,
    VotersPosition,
    voter_entry,
)
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.safety import Refusal
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, ReplicaKey

LOOK_AGAIN_MS = 50.0
"""How often a leader looks whether a plan that had to wait can go on."""
ADD_TIMEOUT_MS = 10_000.0
"""A planned add that was not written by then makes room for another newcomer."""
MAX_WAITING = 16

Target = tuple[ReplicaKey, ...] | None


def handle_alter_quorum(
    replica: ReplicaState, request_id: int, request: AlterQuorumRequest
) -> None:
    """Take a new target, or the cancellation of the present one."""
    leader = replica.role
    refusal = membership.refusal_of_leader(replica, request.cluster_id)
    if refusal is None:
        assert isinstance(leader, Leader)
        refusal = _refusal(replica, leader, request)
    if refusal is not None:
        _answer(replica, request_id, refusal)
        return
    assert isinstance(leader, Leader)
    deadline_ms = replica.now_ms + request.timeout_ms
    leader.alterations.append(
        PendingAlteration(request_id, request.target, request.expected, deadline_ms)
    )
    if _is_unwritten_add(leader):
        leader.change = None
    proceed(replica, leader)


def is_busy(replica: ReplicaState, leader: Leader) -> bool:
    """Whether `proceed` might have something to do (asked after every event)."""
    return bool(leader.alterations) or replica.voters.latest.record.target_voters is not None


def proceed(replica: ReplicaState, leader: Leader) -> None:
    """Requests first, in their order; then one step of the plan, if one is possible."""
    while leader.alterations and _advance_request(replica, leader):
        pass
    if leader.alterations or replica.now_ms < leader.plan_look_ms:
        return
    if replica.voters.latest.record.target_voters is None:
        return
    if _newcomer_is_gone(replica, leader):
        membership.give_up_planned_add(leader)
    if _is_unwritten_add(leader) or _settled(replica, leader):
        leader.plan_look_ms = replica.now_ms + LOOK_AGAIN_MS
    if _settled(replica, leader):
        _take(replica, leader, next_step(situation(replica, leader)))


def next_deadline_ms(replica: ReplicaState, leader: Leader) -> float:
    """When a request's time is over, or the plan is to look again."""
    deadline_ms = min((each.deadline_ms for each in leader.alterations), default=float("inf"))
    if not leader.alterations and (_is_unwritten_add(leader) or _settled(replica, leader)):
        deadline_ms = min(deadline_ms, max(leader.plan_look_ms, replica.now_ms))
    return deadline_ms


def expire_alterations(replica: ReplicaState, leader: Leader) -> None:
    """Requests whose time is over."""
    for waiting in list(leader.alterations):
        if replica.now_ms < waiting.deadline_ms:
            continue
        if waiting.position is None:
            leader.alterations.remove(waiting)
            message = "nothing was changed: the voters record before it was not committed in time"
        else:
            waiting.deadline_ms = float("inf")
            message = "the target was written but is not committed yet; the outcome is open"
        if waiting.request_id is not None:
            refusal = Refusal(RaftError.REQUEST_TIMED_OUT, message)
            _answer(replica, waiting.request_id, refusal)
            waiting.request_id = None


def abandon_alteration(leader: Leader, request_id: int) -> None:
    """Whoever asked is gone: what is not written yet is dropped."""
    for waiting in list(leader.alterations):
        if waiting.request_id == request_id:
            waiting.request_id = None
            if waiting.position is None:
                leader.alterations.remove(waiting)


def situation(replica: ReplicaState, leader: Leader) -> Situation:
    """The plan's view of what this leader knows."""
    voters = replica.voters.latest.voters
    live = {replica.key}
    observers = []
    for key, progress in leader.progress.items():
        caught_up = safety.is_caught_up(replica, progress)
        if key in voters:
            if caught_up:
                live.add(key)
        elif key.uuid is not None:
            ready = caught_up and _listens(key, progress)
            observers.append(Observer(key, ready))
    target = replica.voters.latest.record.target_voters or ()
    witnesses = frozenset(
        key for key in (replica.key, *leader.progress) if safety.is_witness(replica, leader, key)
    )
    return Situation(
        replica.key,
        voters.ordered_keys,
        target,
        frozenset(live),
        tuple(observers),
        witnesses,
        leader.plan_failures,
    )


def outlook(replica: ReplicaState, leader: Leader) -> str:
    """What the plan does now or waits for, in words; empty without a plan."""
    if replica.voters.latest.record.target_voters is None:
        return ""
    change = leader.change
    if change is not None:
        return f"{change.kind.value} {change.voter}: {change.phase.value}"
    if leader.handover is not None:
        return "handing leadership over to a voter that stays"
    if not replica.voters.latest_is_committed:
        return f"waiting for the commit of the voters record at {replica.voters.latest.offset}"
    if not leader.own_epoch_committed:
        return f"waiting for the first commit of epoch {replica.epoch}"
    match next_step(situation(replica, leader)):
        case Add(key):
            endpoints = leader.progress[key].endpoints
            refusal = safety.check_add(replica, key, endpoints, count_newcomer=False)
            return f"next: add {key}" if refusal is None else _refused(f"add {key}", refusal)
        case Remove(key):
            refusal = safety.check_remove(replica, key)
            return f"next: remove {key}" if refusal is None else _refused(f"remove {key}", refusal)
        case HandOver(successor):
            return f"next: hand leadership over to {successor}"
        case Finish():
            return "next: clear the target, which is reached"
        case Wait(reason):
            return f"waiting: {reason}"


def _refused(what: str, refusal: Refusal) -> str:
    return f"waiting: can't {what} now: {refusal.error.value}: {refusal.message}"


def _refusal_of_target(
    replica: ReplicaState, leader: Leader, target: tuple[ReplicaKey, ...]
) -> Refusal | None:
    ids = [key.id for key in target]
    if not ids:
        return Refusal(RaftError.INVALID_REQUEST, "a quorum has at least one voter")
    if min(ids) < 0 or len(set(ids)) < len(ids):
        message = "every target voter needs an id of its own, from 0 on"
        return Refusal(RaftError.INVALID_REQUEST, message)
    lacking = [str(key) for key in _voters_without_feature(replica, leader)]
    if lacking:
        message = (
            f"{', '.join(lacking)} would drop the target voters if it became leader;"
            " change the voters with AddVoter and RemoveVoter"
        )
        return Refusal(RaftError.VOTER_LACKS_FEATURE, message)
    for voter_id in ids:
        if (new_id := safety.refusal_of_new_id(replica, voter_id)) is not None:
            return new_id
    return None


def _refusal(replica: ReplicaState, leader: Leader, request: AlterQuorumRequest) -> Refusal | None:
    if request.target is not None:
        refusal = _refusal_of_target(replica, leader, request.target)
        if refusal is not None:
            return refusal
    change = leader.change
    if change is not None and not change.planned:
        message = f"{change.kind.value} {change.voter}: {change.phase.value}"
        return Refusal(RaftError.VOTER_CHANGE_PENDING, message)
    if not leader.own_epoch_committed:
        return Refusal(RaftError.EPOCH_NOT_COMMITTED, f"epoch {replica.epoch}")
    if replica.disk_low:
        return Refusal(RaftError.DISK_LOW, "")
    if len(leader.alterations) >= MAX_WAITING:
        message = f"{MAX_WAITING} requests to alter the quorum are waiting"
        return Refusal(RaftError.VOTER_CHANGE_PENDING, message)
    return None


def _voters_without_feature(replica: ReplicaState, leader: Leader) -> list[ReplicaKey]:
    """Voters that neither their entry nor a fetch of this epoch shows to know our tagged fields.

    The entry says what ApiVersions told when the voter was added; a stock leader drops that. But only
    this software speaks of answer rounds when it fetches.
    """
    lacking = []
    for voter in replica.voters.latest.voters:
        progress = leader.progress.get(voter.key)
        shown = progress is not None and progress.stock is False
        declared = voter.private_features & KEEPS_TARGET_VOTERS
        if not (declared or shown or voter.key == replica.key):
            lacking.append(voter.key)
    return lacking


def _advance_request(replica: ReplicaState, leader: Leader) -> bool:
    """The first request: write it, or answer it. False if it has to wait."""
    waiting = leader.alterations[0]
    latest = replica.voters.latest
    if waiting.position is None:
        change = leader.change
        if change is not None or not replica.voters.latest_is_committed:
            return False
        now = replica.committed_position()
        if waiting.expected is not None and waiting.expected != now:
            message = f"the voters record is at offset {now.offset}, epoch {now.epoch}"
            _finish(replica, leader, Refusal(RaftError.STALE_VOTERS_POSITION, message), None)
            return True
        if _is_there(waiting.target, latest.record.target_voters, latest.voters.ordered_keys):
            _finish(replica, leader, None, now)
            return True
        waiting.position = _write_target(replica, waiting.target)
        return True
    if waiting.position.offset >= replica.high_watermark:
        return False
    _finish(replica, leader, None, waiting.position)
    leader.plan_look_ms = replica.now_ms
    return True


def _is_there(wanted: Target, target: Target, voters: tuple[ReplicaKey, ...]) -> bool:
    """The committed record says so already: the same target, or none and the voters are as wanted."""
    if wanted is None or target is None:
        if wanted is None:
            return target is None
        difference = compare(voters, wanted)
        return not difference.new and not difference.removing
    return set(wanted) == set(target)


def _write_target(replica: ReplicaState, target: Target) -> VotersPosition:
    """The same voters with another target; such a record waits for the commit of the one before."""
    assert replica.voters.latest_is_committed, "a second record before the first is committed"
    record = replace(replica.voters.latest.record, target_voters=target)
    replica.planned_handovers = 0
    return VotersPosition(append_control(replica, (record,)), replica.epoch)


def _is_unwritten_add(leader: Leader) -> bool:
    change = leader.change
    return change is not None and change.planned and change.phase is not ChangePhase.COMMITTING


def _newcomer_is_gone(replica: ReplicaState, leader: Leader) -> bool:
    """It fetched when its add began and does not any more: others may be there."""
    change = leader.change
    if change is None or not _is_unwritten_add(leader):
        return False
    progress = leader.progress.get(change.voter)
    return progress is None or not safety.is_fetching(replica, progress)


def _settled(replica: ReplicaState, leader: Leader) -> bool:
    """No change and no handover is under way, and everything known is committed."""
    return (
        leader.change is None
        and leader.handover is None
        and leader.own_epoch_committed
        and replica.voters.latest_is_committed
        and replica.is_voter
        and not replica.disk_low
    )


def _take(replica: ReplicaState, leader: Leader, step: Step) -> None:
    match step:
        case Add(key):
            endpoints = leader.progress[key].endpoints
            membership.begin_planned_add(replica, leader, key, endpoints, ADD_TIMEOUT_MS)
        case Remove(key):
            membership.begin_planned_removal(replica, leader, key)
        case HandOver(successor):
            if replica.now_ms >= replica.hand_over_again_ms:
                replica.planned_handovers += 1
                replica.hand_over_again_ms = replica.now_ms + _pause_ms(replica)
                handover.start(replica, leader, None, successor)
        case Finish():
            _write_target(replica, None)
        case Wait():
            pass


def _listens(key: ReplicaKey, progress: Progress) -> bool:
    return voter_entry(key, progress.endpoints).endpoint(CONTROLLER) is not None


def _pause_ms(replica: ReplicaState) -> float:
    """A leader that is elected again gives the others longer and longer before it tries again."""
    attempts = min(replica.planned_handovers, 6)
    return replica.config.election_timeout_ms * float(2**attempts)


def _finish(
    replica: ReplicaState, leader: Leader, refusal: Refusal | None, position: VotersPosition | None
) -> None:
    waiting = leader.alterations.popleft()
    if waiting.request_id is not None:
        _answer(replica, waiting.request_id, refusal, position)


def _answer(
    replica: ReplicaState,
    request_id: int,
    refusal: Refusal | None,
    position: VotersPosition | None = None,
) -> None:
    current = replica.current_leader()
    if refusal is None:
        replica.respond(request_id, VoterChangeResponse(RaftError.NONE, current, "", position))
        return
    membership.refuse(replica, request_id, refusal)
