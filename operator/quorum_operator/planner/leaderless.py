"""Restarts of outdated members while no majority confirms a leader: the corrected spec may be what brings one back.

Owns which running member may be restarted then, and the order. Such a restart loses nothing: what the replica has
acknowledged is on its disk, and it serves nobody. Still only an outdated member is restarted: another one would come
back as it was, and each restart delays an election. The operator may be the only one that does not reach the leader, so the
kubelet and the processes have to agree that there is none.
"""

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner.member_problems import hangs, is_disk_full
from quorum_operator.planner.observed import Incarnation, PodFacts
from quorum_operator.planner.quorum_loss import lasts, voter_sets_of
from quorum_operator.planner.refusals import first_not_held
from quorum_operator.planner.restart import (
    RETRY_RESTART_S,
    restart_of,
    stale_members,
    why_restarted,
)
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import Step, Wait

UNCONFIRMED = "no majority confirms a leader"
PACE_S = 30.0
"""Time after the creation of a pod in which no other member is restarted: long enough to start and to elect a leader."""
_WITH_A_LEADER = frozenset({"leader", "follower"})
"""Roles in the report of a replica that has a leader."""


def plan_leaderless_restart(at: Situation) -> Step | None:
    """The next outdated member to restart without a leader, or why it waits; None if none is outdated.

    First those that do not answer: they are most likely what the correction is for.
    """
    if at.view is not None or at.identity is None or not at.identity.formed:
        return None
    outdated = [each for each in stale_members(at) if each.pod is not None and not each.pod.ready]
    outdated.sort(key=lambda each: (each.report is not None, each.node_id, each.number))
    obstacles = [(each, leaderless_obstacle(at, each)) for each in outdated]
    restarts = (
        restart_of(at, each.pod, f"{each.name} {why_restarted(at, each)}, and there is no leader")
        for each, obstacle in obstacles
        if obstacle is None and each.pod is not None
    )
    step = first_not_held(at.seen, restarts)
    waiting = [(each, obstacle) for each, obstacle in obstacles if obstacle is not None]
    if step is not None or not waiting:
        return step
    each, obstacle = waiting[0]
    reason = f"{UNCONFIRMED}; {each.name} is to restart for the corrected spec"
    return Wait(reason, obstacle or "", RETRY_RESTART_S)


def leaderless_obstacle(at: Situation, each: Incarnation) -> str | None:
    """Why a member of a formed quorum without a confirmed leader must not be restarted now; None if it may be."""
    if not lasts(at):
        return UNCONFIRMED  # elections are shorter
    return _serves(at, each) or _too_few(at) or _others_restart(at, each)


def _serves(at: Situation, each: Incarnation) -> str | None:
    """Why the member may serve a leader, or be one, that the operator does not reach."""
    if each.pod is None or each.pod.ready:
        return f"{each.name} is ready: it has a leader, which the operator does not reach"
    if each.host_away is not None:
        return f"the host of {each.name} is not ready, so its kubelet may be wrong about it"
    if each.report is not None:
        follows = each.report.role in _WITH_A_LEADER
        return f"{each.name} reports the role {each.report.role}" if follows else None
    heard = [
        other.name
        for other in at.current
        if (other.pod is not None and other.pod.ready)
        or (other.report is not None and other.report.role in _WITH_A_LEADER)
    ]
    if heard:
        return f"{each.name} does not answer the operator, and may serve: {heard[0]} has a leader"
    return None


def _too_few(at: Situation) -> str | None:
    """With fewer running voters than a majority a restart brings no leader back, and the log of a survivor could no
    longer be read if its pod did not start again.
    """
    voters = next(iter(voter_sets_of(at)), None)
    running = [each for each in at.current if _runs(each) and (not voters or each.key in voters)]
    needed = majority(len(voters) if voters else at.known_voters or at.target)
    if len(running) >= needed:
        return None
    return f"{len(running)} voters run, and {needed} are needed for a leader: bring the others back first"


def _others_restart(at: Situation, each: Incarnation) -> str | None:
    """One at a time, and none while a corrected template is not known to work."""
    silent: list[str] = []
    works, stale = False, {other.name for other in stale_members(at)}
    for other in at.current:
        pod = other.pod
        if other is each or not other.should_run or other.host_away is not None:
            continue
        if pod is None:
            if other.not_made is None:
                return f"the pod of {other.name} is being created"
            continue
        if pod.deleting and not (pod.held_by or hangs(pod, at.now)):
            return f"{pod.name} is terminating"
        if pod.deleting:
            continue
        if at.now - pod.created_at < PACE_S:
            return f"{pod.name} has just started; the others have {PACE_S:.0f} s to elect a leader"
        wanted = at.seen.templates.get(other.name)
        same = wanted is not None and pod.restart_hash == wanted.restart_hash
        if same and other.name not in stale:
            works = works or other.report is not None
            if other.report is None and not _has_disk_problem(other, pod):
                silent.append(other.name)
    if silent and not works:
        return (
            f"{silent[0]} has the corrected template, and does not answer. If the template is the reason, correct the spec; "
            f"otherwise delete the pod of {each.name} by hand"
        )
    return None


def _has_disk_problem(each: Incarnation, pod: PodFacts) -> bool:
    """Whether its own disk keeps it from answering, and not its template."""
    fails = pod.mount_failed_at is not None or pod.unusable_volume is not None
    return is_disk_full(each) or (fails and not pod.running)


def _runs(each: Incarnation) -> bool:
    pod, usable = each.pod, each.should_run and each.host_away is None
    return usable and pod is not None and pod.running and not pod.deleting
