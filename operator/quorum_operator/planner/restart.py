"""Restarts for a changed image or configuration: one pod at a time, the leader last.

Owns the order only; whether a voter may be down for a moment is decided in `gates.py`.
"""

from quorum_operator.planner.gates import restart_gate
from quorum_operator.planner.observed import Incarnation, PodFacts, Templates
from quorum_operator.planner.refusals import held
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RestartMember, Step, TransferLeadership, Wait
from quorum_operator.planner.updates import restart_hold

RETRY_RESTART_S = 0.5
TOKEN_GRACE_S = 150.0
"""How long a node may refuse a changed admin token before it restarts for it."""


def plan_idle_restart(at: Situation) -> Step | None:
    """A pod that can't start (unschedulable, wrong image, wrong property) loses nothing by a restart.

    It goes before membership, newcomers first: one that waits for the corrected template would block that.
    """
    back: Step | None = None
    for each in at.newcomers_first(at.current):
        pod = each.pod
        if pod is None or not is_unable_to_start(each) or not _is_replaceable(at, each):
            continue
        why = "unschedulable" if pod.unschedulable is not None else pod.waiting_reason or pod.phase
        step = restart_of(
            at, pod, f"{each.name} waits ({why}) with an old template or configuration"
        )
        if held(at.seen, step) is None:
            return step
        back = back or step
    return back


def is_unable_to_start(each: Incarnation) -> bool:
    """Whether its container does not run, or there is no pod where there should be one."""
    pod = each.pod
    if each.replicas == 0 or each.failed is not None:
        return False
    if pod is None:
        return True
    return not (pod.ready or pod.deleting) and (not pod.running or pod.waiting_reason is not None)


def _is_replaceable(at: Situation, each: Incarnation) -> bool:
    """Whether a new pod would be made from a newer template than this one was."""
    wanted, pod = at.seen.templates.get(each.name), each.pod
    if wanted is None or pod is None or not _has_template(each, wanted):
        return False  # as long as the template is not up to date, the new pod would be like the old one
    return pod.outdated or pod.restart_hash != wanted.restart_hash or _crashed_before(at, pod)


def _has_template(each: Incarnation, wanted: Templates) -> bool:
    """Whether a pod that is made now comes from the wanted template, unchanged by anybody."""
    return each.template_hash == wanted.template_hash and each.drift is None


def _crashed_before(at: Situation, pod: PodFacts) -> bool:
    """Whether it ended with another configuration than there is now, which it may never get to read.

    The kubelet keeps what an immutable ConfigMap said for as long as a pod on its host uses it. Both times are whole
    seconds, so of two that are equal the pod may be the older one. One restart too many is harmless: the next pod is newer.
    """
    made_at = at.seen.config_created_at
    return pod.exit_code is not None and made_at is not None and pod.created_at <= made_at


def restart_of(at: Situation, pod: PodFacts, reason: str) -> RestartMember:
    """The step that deletes this very pod."""
    identity = at.identity
    assert identity is not None
    return RestartMember(pod.name, pod.uid, identity.index, identity.resource_version, reason)


def plan_restart(at: Situation) -> Step | None:
    """The next pod to restart, or None when all run what is wanted."""
    view = at.view
    if view is None:
        return None
    stale = [each for each in at.current if _is_stale(at, each) and not _is_held(at, each)]
    if not stale:
        return None
    picked = at.identity.restarting if at.identity is not None else None
    stale.sort(
        key=lambda each: (
            each.pod is None or each.pod.uid != picked,
            each.key == view.leader,
            each.node_id,
            each.number,
        )
    )
    each = stale[0]
    unsettled = [other.name for other in at.current if _is_unsettled(other)]
    if unsettled and unsettled != [each.name]:
        waiting = "not ready: " + ", ".join(unsettled)
        return Wait(f"{each.name} is to restart", waiting, RETRY_RESTART_S)
    assert each.pod is not None
    token = _refuses_token(at, each)
    reason = f"{each.name} " + (
        "does not take the admin token, which it reads when it starts"
        if token
        else "runs an old image or configuration"
    )
    if each.key is None or each.key not in at.voters:
        return restart_of(at, each.pod, reason)
    # A voter that is down already loses nothing by a restart; it may be what mends it.
    blocked = restart_gate(view, each.key, at.target) if each.key in at.live else None
    if blocked is not None:
        return Wait(f"{each.name} is to restart", blocked, RETRY_RESTART_S)
    successors = sorted(at.live - {view.leader})
    if (
        each.key == view.leader and successors and not token
    ):  # else it would refuse to hand over, too
        return TransferLeadership(view.leader, successors[0], f"{reason}; the leader is last")
    return restart_of(at, each.pod, reason)


def _is_unsettled(each: Incarnation) -> bool:
    """A pod that is told to go stays ready for a moment, and its voter is taken for live."""
    pod = each.pod
    should_run = each.replicas > 0 and each.failed is None
    return should_run and (pod is None or not pod.ready or pod.deleting)


def _is_stale(at: Situation, each: Incarnation) -> bool:
    wanted = at.seen.templates.get(each.name)
    if wanted is None or each.pod is None or each.pod.deleting or each.failed is not None:
        return False
    if not _has_template(each, wanted):
        return False  # its template comes first; where that is refused, a restart brings the same again
    if _refuses_token(at, each):
        return each.replicas > 0
    other = each.pod.restart_hash != wanted.restart_hash or each.pod.runs_other
    return each.replicas > 0 and other


def _is_held(at: Situation, each: Incarnation) -> bool:
    """By a pause or a maintenance window. What is no update is a repair."""
    return restart_hold(at, each) is not None and not _refuses_token(at, each)


def _refuses_token(at: Situation, each: Incarnation) -> bool:
    """For longer than the kubelet needs to bring a changed Secret: a node of this version would have read it."""
    since = None if each.pod is None else each.pod.token_refused_since
    return since is not None and at.now - since >= TOKEN_GRACE_S
