"""AlterQuorum on the leader: setting or cancelling target voters.

Owns the life cycle of a request. Must not know how the quorum reaches its target
(`planned_steps.py`).
Source: KIP-595, "AlterQuorum Request Handling" (K595-24).

1. Preconditions: the receiver is the leader and is not handing over; every voter would preserve
target voters if it became leader.
2. If the target equals that of the latest voters record, the request is answered when that record
is committed.
3. Otherwise, or for null (cancel), the voters record is written again with the same voters and the
new target, as soon as the record before it is committed. A planned add that is not written yet is
dropped.
4. The answer follows the commit of the target, not the end of the plan.

While there is a target, AddVoter and RemoveVoter are refused. UpdateVoter changes no key and is
allowed.
"""

from quorum_node.raft import membership, planned_steps, safety
from quorum_node.raft.alteration import compare
from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader, PendingAlteration
from quorum_node.raft.messages import AlterQuorumRequest, VoterChangeResponse, VotersPosition
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.safety import Refusal
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, ReplicaKey

MAX_TARGET_VOTERS = 100
"""The limit of the admin API. The cost of a plan grows faster than its number of voters."""
MAX_WAITING = 16

Target = tuple[ReplicaKey, ...] | None


def handle_alter_quorum(
    replica: ReplicaState, request_id: int, request: AlterQuorumRequest
) -> None:
    """Accept a new target, or the cancellation of the present one."""
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
    if planned_steps.is_unwritten_add(leader):
        leader.change = None
    proceed(replica, leader)


def is_busy(replica: ReplicaState, leader: Leader) -> bool:
    """Whether `proceed` may have work to do; called after every event."""
    return bool(leader.alterations) or replica.voters.latest.record.target_voters is not None


def proceed(replica: ReplicaState, leader: Leader) -> None:
    """Handle requests in their order, then take one step of the plan if possible."""
    while leader.alterations and _advance_request(replica, leader):
        pass
    if not leader.alterations:
        planned_steps.proceed_plan(replica, leader)


def next_deadline_ms(replica: ReplicaState, leader: Leader) -> float:
    """When a request times out, or the plan is to be checked again."""
    if leader.alterations:
        return min(each.deadline_ms for each in leader.alterations)
    return planned_steps.next_look_ms(replica, leader)


def expire_alterations(replica: ReplicaState, leader: Leader) -> None:
    """Answer requests that have timed out."""
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
    """The requester's connection closed: drop its request if it is not written yet."""
    for waiting in list(leader.alterations):
        if waiting.request_id == request_id:
            waiting.request_id = None
            if waiting.position is None:
                leader.alterations.remove(waiting)


def _refusal_of_target(
    replica: ReplicaState, leader: Leader, target: tuple[ReplicaKey, ...]
) -> Refusal | None:
    if len(target) > MAX_TARGET_VOTERS:
        message = f"{len(target)} target voters, a quorum has at most {MAX_TARGET_VOTERS}"
        return Refusal(RaftError.INVALID_REQUEST, message)
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
    """Voters for which neither their entry nor a fetch of this epoch proves that they support our
    tagged fields.

    The entry has what ApiVersions reported when the voter was added; a stock leader drops that
    information. Only this software sends answer rounds in its fetches.
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
    """Write or answer the first request; False if it has to wait."""
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
        waiting.position = planned_steps.write_target(replica, waiting.target)
        return True
    if waiting.position.offset >= replica.high_watermark:
        return False
    _finish(replica, leader, None, waiting.position)
    leader.plan_look_ms = replica.now_ms
    return True


def _is_there(wanted: Target, target: Target, voters: tuple[ReplicaKey, ...]) -> bool:
    """Whether the committed record fulfils the request: it has the same target, or no target and the
    wanted voters.
    """
    if wanted is None or target is None:
        if wanted is None:
            return target is None
        difference = compare(voters, wanted)
        return not difference.new and not difference.removing
    return set(wanted) == set(target)


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
