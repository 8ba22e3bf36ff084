"""Safety rules checked directly before a step is executed.

The observation has a describe and pods that were read for this step (`safety_check.py`):

- no sign of failure stops a voter that fetches from a confirmed leader;
- a planned stop, and the removal of a voter, leave a live majority;
- nothing is stopped, removed or deleted without a confirmed describe, except for a recovery, or before the quorum has
  formed, or to restart a member that serves nobody.

The rules are independent of the planner and hold for each step separately, whichever operator planned it and however
many members are affected.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner import stray_pods
from quorum_operator.planner.evidence import CIRCUMSTANCES, HOST_DELETED
from quorum_operator.planner.gates import remove_gate, restart_gate
from quorum_operator.planner.leaderless import UNCONFIRMED, leaderless_obstacle
from quorum_operator.planner.observed import Incarnation, Key
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import (
    DeleteIncarnation,
    DeleteStrayPod,
    DiscardVolume,
    LatchFailure,
    RemoveVoter,
    RestartMember,
    ScaleToZero,
    Step,
    Unlatch,
)
from quorum_operator.planner.unlatching import may_be_unlatched, refutation, successors


def may_harm(step: Step) -> bool:
    """Whether a step needs this check."""
    if isinstance(step, LatchFailure):
        return step.latch.reason in CIRCUMSTANCES
    return isinstance(
        step,
        ScaleToZero
        | DeleteIncarnation
        | DeleteStrayPod
        | DiscardVolume
        | RemoveVoter
        | RestartMember
        | Unlatch,
    )


def harm(at: Situation, step: Step) -> str | None:
    """Why this step must not be executed now; None if it may be."""
    match step:
        case LatchFailure(target, latch):
            return _of_latch(at, _incarnation(at, target.name), latch.reason)
        case Unlatch(target):
            return _of_unlatching(at, _incarnation(at, target.name))
        case ScaleToZero(target, why):
            return _of_stop(at, _incarnation(at, target.name), why)
        case DeleteIncarnation(target) | DiscardVolume(target):
            return _of_deletion(at, _incarnation(at, target.name))
        case RemoveVoter(key):
            return _of_removal(at, key)
        case RestartMember(pod, pod_uid):
            return _of_restart(at, pod, pod_uid)
        case DeleteStrayPod(_, pod_uid):
            strays = (each for each in at.seen.stray_pods if each.pod.uid == pod_uid)
            return next((stray_pods.objection(at, each) for each in strays), None)
    return None


def _incarnation(at: Situation, name: str) -> Incarnation:
    return next(each for each in at.seen.incarnations if each.name == name)


def _of_latch(at: Situation, each: Incarnation, reason: str) -> str | None:
    """The check of a failure mark from an indirect sign; direct evidence is always recorded."""
    formed = at.identity is None or at.identity.formed
    if at.view is None:
        return UNCONFIRMED if formed else None
    if each.key in at.in_contact or at.acts_as_voter(each):
        return f"{each.name} fetches from the leader"
    return _runs(each, reason)


def _of_unlatching(at: Situation, each: Incarnation) -> str | None:
    if at.view is None:
        return UNCONFIRMED
    if refutation(at, each) is None or not may_be_unlatched(at, each):
        return f"{each.name} is marked failed"
    running = [other for other in successors(at, each) if other.replicas > 0 or other.pod]
    return f"{running[0].name} has not stopped" if running else None


def _runs(each: Incarnation, reason: str) -> str | None:
    """Why a running container contradicts the indirect sign `reason`; None if it does not. A deleted Node is an
    exception, because its kubelet reports nothing new.
    """
    if reason not in CIRCUMSTANCES - {HOST_DELETED}:
        return None
    if each.pod is not None and each.pod.running and not each.pod.deleting:
        return f"the container of {each.pod.name} runs"
    return None


def _of_stop(at: Situation, each: Incarnation, why: str) -> str | None:
    if each not in at.current:
        return None  # of an abandoned formation: it is not a member of this quorum
    view = at.view
    if view is None:
        return None if why.startswith(FENCED) else UNCONFIRMED
    if each.key not in at.voters and at.acts_as_voter(each):
        return f"the process of {each.name} is a voter that the leader hears, although its annotations name another"
    if at.may_be_in_contact(each):
        return f"{each.name} may be the voter {each.node_id} that the leader hears"
    if each.key not in at.voters:
        return f"an uncommitted voter change may concern {each.name}" if _moves(at) else None
    if each.key in at.in_contact:
        return f"{each.name} still fetches from the leader: it is replaced as a voter before it is stopped"
    if why.startswith(FENCED):
        return f"{each.name} is a voter of a quorum with a confirmed leader"
    if each.failed is None:
        return f"{each.name} is a voter without a sign of a failed disk"
    return _runs(each, each.failed.reason)


def _moves(at: Situation) -> bool:
    view = at.view
    return view is not None and (view.pending_change or not view.voters_committed)


def _of_deletion(at: Situation, each: Incarnation) -> str | None:
    if each not in at.current:
        return None
    if at.view is None:
        return UNCONFIRMED
    if each.key in at.voters or at.acts_as_voter(each):
        return f"{each.name} is a voter"
    if each.pod is not None or (each.failed is not None and each.key in at.in_contact):
        return f"{each.name} runs"
    return f"an uncommitted voter change may concern {each.name}" if _moves(at) else None


def _of_removal(at: Situation, key: Key) -> str | None:
    if at.view is None:
        return UNCONFIRMED
    if key not in at.voters:
        return None  # the leader will refuse it: the voters have changed since the observation
    if key == at.view.leader:
        return f"voter {key.id} is the leader: leadership is transferred first"
    leader = at.by_key.get(at.view.leader)
    if key in at.live and leader is not None and _is_ending(leader):
        return f"the pod of {leader.name}, which leads, is gone or terminating"
    return remove_gate(at.view, key, at.target)


def _is_ending(each: Incarnation) -> bool:
    """Whether its pod is missing or terminating. The leader counts itself as live until its process ends, and counts an
    ended voter as live for a moment.
    """
    return each.pod is None or each.pod.deleting


def _unfenced(at: Situation, survivor: Incarnation) -> str | None:
    """Why the survivor of a recovery must not be restarted as the sole voter; None if it may be."""
    if survivor.recovery_given_up:
        return None
    others = [e.pod.name for e in at.current if e is not survivor and e.pod is not None]
    return f"{', '.join(others)} must be gone first" if others else None


def _of_restart(at: Situation, pod: str, pod_uid: str) -> str | None:
    each = next((e for e in at.current if e.pod is not None and e.pod.uid == pod_uid), None)
    if each is None or each.pod is None:
        return None  # the pod is gone: stopping it loses nothing
    if not each.pod.running and each.key not in at.in_contact:
        return None  # neither does its container run: the kubelet reports a start later than the leader
    view, key = at.view, each.key
    if key not in at.voters and each.report is not None and at.acts_as_voter(each):
        key = Key(each.node_id, each.report.uuid)
    if view is None:
        formed = at.identity is None or at.identity.formed
        if not formed:
            return None
        return leaderless_obstacle(at, each) if each.recovery is None else _unfenced(at, each)
    if key is None or key not in at.live:
        return None
    if each.recovery is None:
        going = [
            e.name for e in at.current if e.key in at.voters and e is not each and _is_ending(e)
        ]
        if going:
            return f"the pod of voter {going[0]} is gone or terminating"
        return restart_gate(view, key, at.target)
    left = len(at.live) - 1
    if len(at.voters) > 1 and left < majority(len(at.voters)):
        return f"without {pod} {left} of {len(at.voters)} voters are live"
    return None
