"""Restarts for a changed image or configuration: one pod at a time, those that serve nothing first, the leader last.

Owns only the order; `gates.py` decides whether a voter may be down.
"""

from quorum_node.exit_codes import ExitCode
from quorum_operator.planner.gates import restart_gate
from quorum_operator.planner.object_facts import Templates
from quorum_operator.planner.observed import Incarnation, PodFacts
from quorum_operator.planner.refusals import first_not_held, held
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RestartMember, Step, TransferLeadership, Wait
from quorum_operator.planner.updates import restart_hold

RETRY_RESTART_S = 0.5
PERMISSION_GRACE_S = 60.0
"""Age from which a pod that may not use its volume is recreated."""
UNREADY_GRACE_S = 60.0
"""Time for which a pod of an older template may be not ready: longer than a start, and than most catching up takes."""
TOKEN_GRACE_S = 150.0
"""Time for which a node may reject a changed admin token before it is restarted."""


def plan_idle_restart(at: Situation) -> Step | None:
    """Restart a pod that can't start (unschedulable, wrong image, wrong property), which loses nothing.

    This comes before membership changes, new members first: one that waits for the corrected template would block
    them.
    """

    def restart(each: Incarnation) -> Step | None:
        pod = each.pod
        if pod is None or not is_unable_to_start(each) or not _is_replaceable(at, each):
            return None
        if each.key in at.in_contact:
            return None  # Its process runs, which the kubelet reports later than the leader, or has just ended.
        return restart_of(at, pod, f"{each.name} {_why_recreated(pod)}")

    return first_not_held(at.seen, map(restart, at.non_voters_first(at.current)))


def plan_forming_restart(at: Situation) -> Step | None:
    """Restart outdated members that run, but don't serve, before the quorum has formed: the earlier image or
    configuration may be what keeps it from forming, and nothing was written yet.
    """
    if at.view is not None or at.identity is None or at.identity.formed:
        return None
    for each in at.current:
        if each.pod is None or each.pod.ready or not _is_stale(at, each):
            continue
        step = restart_of(
            at, each.pod, f"{each.name} runs an old image or configuration, and has not formed"
        )
        if held(at.seen, step) is None:
            return step
    return None


def _why_recreated(pod: PodFacts) -> str:
    if _lacks_permission(pod):
        return "may not use its volume; owner and mode are set for a new pod"
    why = "unschedulable" if pod.unschedulable is not None else pod.waiting_reason or pod.phase
    return f"runs an old template or configuration and waits ({why})"


def is_unable_to_start(each: Incarnation) -> bool:
    """Whether its container does not run, or an expected pod is missing."""
    pod = each.pod
    if each.replicas == 0 or each.failed is not None:
        return False
    if pod is None:
        return True
    return not (pod.ready or pod.deleting) and (not pod.running or pod.waiting_reason is not None)


def _is_replaceable(at: Situation, each: Incarnation) -> bool:
    """Whether a new pod would use a newer template."""
    wanted, pod = at.seen.templates.get(each.name), each.pod
    if wanted is None or pod is None or not _has_template(each, wanted):
        return False  # until the template is up to date, a new pod would be like the old one
    return (
        pod.outdated
        or pod.restart_hash != wanted.restart_hash
        or _crashed_before(at, pod)
        or _lacks_permission(pod)
    )


def _has_template(each: Incarnation, wanted: Templates) -> bool:
    """Whether a new pod would use the wanted template, name and claim, unchanged by other clients."""
    is_changed = each.drift is not None or each.immutable_drift is not None
    return each.template_hash == wanted.template_hash and not is_changed


def _crashed_before(at: Situation, pod: PodFacts) -> bool:
    """Whether it exited and is older than the current configuration or token, which it may never read.

    The kubelet caches an immutable ConfigMap or Secret while a pod on its host uses it. Both times are full seconds, so equal
    ones may mean an older pod. An unnecessary restart is harmless.
    """
    made_at = at.seen.mounts_created_at
    return pod.exit_code is not None and made_at is not None and pod.created_at <= made_at


def _lacks_permission(pod: PodFacts) -> bool:
    """Whether it may not use its volume, although it is not new.

    The kubelet sets owner and mode of a volume (`fsGroup`) only for a new pod. Both times are the cluster's.
    """
    exit_at = pod.created_at if pod.exit_at is None else pod.exit_at
    return (
        pod.exit_code == ExitCode.NO_PERMISSION and exit_at - pod.created_at >= PERMISSION_GRACE_S
    )


def restart_of(at: Situation, pod: PodFacts, reason: str) -> RestartMember:
    """The step that deletes this very pod."""
    identity = at.identity
    assert identity is not None
    return RestartMember(pod.name, pod.uid, identity.index, identity.resource_version, reason)


def plan_down_restart(at: Situation) -> Step | None:
    """Restart an outdated member that serves nothing, also while a new member is awaited: it may be this one, or wait for
    it. What it runs may be the cause.
    """
    restarts = (
        restart_of(at, each.pod, f"{each.name} {why_restarted(at, each)}")
        for each in stale_members(at)
        if each.pod is not None and _is_down(at, each)
    )
    return first_not_held(at.seen, restarts)


def stale_members(at: Situation) -> list[Incarnation]:
    return [each for each in at.current if _is_stale(at, each) and not _is_held(at, each)]


def plan_restart(at: Situation) -> Step | None:
    """The next pod to restart, or None if all are up to date."""
    view = at.view
    if view is None:
        return None
    stale = stale_members(at)
    if not stale:
        return None
    picked = at.identity.restarting if at.identity is not None else None
    unsettled = [other.name for other in at.current if _is_unsettled(at, other)]
    stale.sort(
        key=lambda each: (
            each.pod is None or each.pod.uid != picked,
            each.name not in unsettled,
            each.key == view.leader,
            each.node_id,
            each.number,
        )
    )
    down = [each for each in stale if _is_down(at, each)]
    each = (down or stale)[0]
    if unsettled and unsettled != [each.name] and not down:
        waiting = "not ready: " + ", ".join(unsettled)
        return Wait(f"{each.name} is to restart", waiting, RETRY_RESTART_S)
    assert each.pod is not None
    token = _refuses_token(at, each)
    reason = f"{each.name} {why_restarted(at, each)}"
    if each.key is None or each.key not in at.voters:
        return restart_of(at, each.pod, reason)
    # Restarting a voter that is already down costs nothing and may repair it.
    blocked = restart_gate(view, each.key, at.target) if each.key in at.live else None
    if blocked is not None:
        return Wait(f"{each.name} is to restart", blocked, RETRY_RESTART_S)
    successors = sorted(at.live - {view.leader})
    if (
        each.key == view.leader and successors and not token
    ):  # its node would also reject the transfer
        return TransferLeadership(view.leader, successors[0], f"{reason}; the leader restarts last")
    return restart_of(at, each.pod, reason)


def why_restarted(at: Situation, each: Incarnation) -> str:
    if _refuses_token(at, each):
        return "rejects the admin token, which its version reads only at start"
    wanted, pod = at.seen.templates.get(each.name), each.pod
    same = wanted is not None and pod is not None and pod.restart_hash == wanted.restart_hash
    if same and pod is not None and not pod.runs_other:
        return "was made from another template, and is not ready"
    return "runs an old image or configuration"


def _is_down(at: Situation, each: Incarnation) -> bool:
    """Whether it serves nothing, by its kubelet and by the leader. Its restart costs nothing, and the others wait for it: what
    it runs may be the cause.
    """
    if each.pod is None or each.pod.ready or at.acts_as_voter(each):
        return False
    return each.key not in at.in_contact


def _is_unsettled(at: Situation, each: Incarnation) -> bool:
    """Whether it should run, but its pod is missing, not ready or terminating. Its voter may still be counted as live.

    One that has been live for long although its pod is not ready waits for its own restart: it holds up no other one.
    """
    pod = each.pod
    if each.replicas == 0 or each.failed is not None:
        return False
    if pod is None or pod.deleting:
        return True
    return not (pod.ready or (each.key in at.live and _stays_unready(at, each)))


def _is_stale(at: Situation, each: Incarnation) -> bool:
    wanted = at.seen.templates.get(each.name)
    if wanted is None or each.pod is None or each.pod.deleting or each.failed is not None:
        return False
    if not _has_template(each, wanted):
        return False  # the template is updated first; if that is refused, a restart changes nothing
    other = each.pod.restart_hash != wanted.restart_hash or each.pod.runs_other
    return each.replicas > 0 and (other or _refuses_token(at, each) or _stays_unready(at, each))


def _is_held(at: Situation, each: Incarnation) -> bool:
    """Whether a pause or a maintenance window holds the restart back; repairs are never held back. A member whose Secret
    is incomplete is not restarted either: it would not start again.
    """
    found = at.seen.certificates
    if found is not None and each.name in found.without_revoked:
        return True
    repairs = _refuses_token(at, each) or _stays_unready(at, each)
    return restart_hold(at, each) is not None and not repairs


def _stays_unready(at: Situation, each: Incarnation) -> bool:
    """Whether it runs, was made from another template, and has not been ready for long. What else the templates differ in may be the
    reason, such as a readiness probe or name resolution that another client edited before the pod was created.
    """
    pod = each.pod
    if pod is None or pod.ready or not (pod.running and pod.outdated):
        return False
    if each.host_away is not None:
        return False  # It is not ready because its kubelet does not report, and could not be ended either.
    since = max(pod.created_at, pod.not_ready_since or pod.created_at)
    return at.now - since >= UNREADY_GRACE_S


def _refuses_token(at: Situation, each: Incarnation) -> bool:
    """Whether the node has rejected the token for longer than the kubelet needs to update the Secret."""
    since = None if each.pod is None else each.pod.token_refused_since
    return since is not None and at.now - since >= TOKEN_GRACE_S
