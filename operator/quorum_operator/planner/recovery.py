"""Recovers a lost quorum from one survivor, after a user has confirmed exactly that.

Owns the order. All state is on the StatefulSets, so the operator may be killed at any time:

1. spec.recovery equals the current offer: write it on the survivor's StatefulSet.
2. Stop all other members, also pods without a StatefulSet, and wait until their pods are deleted: two old voters of three are a majority of the old
   set.
3. Restart the survivor's pod with `--recover`: its node checks again, keeps a copy, and becomes the sole voter.
4. Record its new replica UUID, and mark the stopped members as fenced: their volumes are kept but never mounted
   again. From here on it is a quorum of one that grows (`membership.py`).

It is cancelled if a majority returns, or spec.recovery changes. The stopped members start again when the survivor
runs without `--recover` in its previous role; if it had already become the sole voter, step 4 follows.
"""

from quorum_node.records.identity import uuid_text
from quorum_node.survivor import Survivor
from quorum_operator.planner.observed import (
    Confirmation,
    FailureLatch,
    Incarnation,
    Key,
    Marks,
    StrayPod,
)
from quorum_operator.planner.quorum_loss import QuorumLoss, is_lost
from quorum_operator.planner.restart import restart_of
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import (
    BeginRecovery,
    DeleteStrayPod,
    GiveUpRecovery,
    LatchFailure,
    RecordReplicaUuid,
    ScaleToZero,
    Step,
    UpdateMember,
    Wait,
    target_of,
)

RETRY_DELETED_S = 0.5
RETRY_SURVIVOR_S = 0.5


def plan_recovery(at: Situation) -> Step | None:
    """The next step of a confirmed recovery, or None."""
    step = _adopt(at) or _seal(at)
    survivor = under_way(at)
    if survivor is None:
        return step or _take_back(at) or _begin(at)
    return step or _give_up(at, survivor) or _fence(at, survivor) or _restart(at, survivor)


def under_way(at: Situation) -> Incarnation | None:
    """The survivor of a recovery in progress."""
    for each in at.current:
        begun = each.recovery is not None and not each.recovery_given_up
        if begun and each.failed is None and each.uuid != each.recovered_uuid:
            return each
    return None


def _adopt(at: Situation) -> Step | None:
    for each in at.current:
        report = each.report
        if each.recovered_uuid is None or report is None or each.failed is not None:
            continue
        if report.uuid == each.recovered_uuid != each.uuid:
            reason = f"{each.name} is the sole voter now, as replica {report.uuid}"
            return RecordReplicaUuid(target_of(each), report.uuid, reason)
    return None


def _seal(at: Situation) -> Step | None:
    for done in at.current:
        if done.recovery is None or done.uuid != done.recovered_uuid:
            continue
        for each in at.current:
            if each.failed is None and each.stopped == fence_text(done):
                evidence = f"the quorum was recovered from {done.name}"
                latch = FailureLatch(FENCED, evidence, at.now, at.now)
                return LatchFailure(target_of(each), latch, f"{each.name}: {FENCED} ({evidence})")
    return None


def fence_text(survivor: Incarnation) -> str:
    return f"{FENCED}: {survivor.recovery}"


def _take_back(at: Situation) -> Step | None:
    """Cancel: before the others start again, make sure that the survivor can't become the sole voter."""
    stopped = {each.stopped for each in at.current if each.failed is None}
    for each in at.current:
        if each.recovery is None or fence_text(each) not in stopped:
            continue
        step = _stop(each) if each.failed is not None else _disarm(at, each)
        if step is not None:
            return step
    return None


def may_start_again(at: Situation, each: Incarnation) -> bool:
    """Whether a member stopped by a recovery may start again: the recovery was cancelled and can't be executed any
    more, or no member has one, and the confirmed leader's voters include this one.
    """
    survivors = [one for one in at.current if one.recovery is not None]
    failed = [one.claim.marks for one in at.seen.lone_claims if one.claim.marks.failed is not None]
    texts = {fence_text(one) for one in survivors}
    texts |= {f"{FENCED}: {(one.recovery or '').split(' ')[0]}" for one in failed}
    wanted = at.view is not None and at.view.voters_committed and each.key in at.voters
    return each.stopped in texts or (not survivors and wanted)


def is_released(at: Situation, marks: Marks) -> bool:
    """Whether a fenced claim may be used again: the survivor runs in its previous role and can't become the sole
    voter.
    """
    for each in at.current:
        if each.recovery is not None and fence_text(each) == marks.fenced:
            given_up = each.recovery_given_up and each.failed is None and each.report is not None
            same = each.report is not None and each.report.uuid == each.uuid != each.recovered_uuid
            return given_up and same and _disarm(at, each) is None
    return False


def _stop(survivor: Incarnation) -> Step | None:
    """Stop the survivor, whose disk failed during the recovery."""
    if survivor.replicas > 0:
        return ScaleToZero(
            target_of(survivor), FENCED, f"{survivor.name} failed during its recovery"
        )
    if survivor.pod is not None:
        return Wait(
            "the other members start again", f"{survivor.pod.name} must be gone", RETRY_DELETED_S
        )
    return None


def _disarm(at: Situation, survivor: Incarnation) -> Step | None:
    step = _with_its_template(at, survivor, "is restarted with its previous role")
    if step is not None or survivor.report is not None:
        return step
    return Wait(
        "the other members start again when the survivor runs with its previous role",
        _process_of(survivor),
        RETRY_SURVIVOR_S,
    )


def _begin(at: Situation) -> Step | None:
    confirmed = at.seen.wanted.recovery
    if confirmed is None or not is_lost(at) or confirmed != QuorumLoss(at).offer:
        return None
    each = at.by_key.get(Key(confirmed.id, confirmed.uuid))
    if each is None or each.uuid is None:
        return None
    text = f"{confirmed.uuid}:{confirmed.epoch}:{confirmed.end_offset}"
    reason = (
        f"confirmed: the quorum is recovered from {each.name}; records committed beyond offset {confirmed.end_offset} are "
        "lost"
    )
    return BeginRecovery(target_of(each), text, reason)


def is_accepted(at: Situation, survivor: Incarnation) -> bool:
    """Whether a recovery in progress is still to be carried out: no majority confirms a leader, and the spec asks for it."""
    recovery = survivor.recovery
    return (
        recovery is not None
        and at.view is None
        and at.seen.wanted.recovery == _acceptance_of(survivor.node_id, recovery)
    )


def _give_up(at: Situation, survivor: Incarnation) -> Step | None:
    recovery = survivor.recovery
    assert recovery is not None
    if at.view is not None:
        reason = "a majority of the voters confirms a leader again"
    elif at.seen.wanted.recovery != _acceptance_of(survivor.node_id, recovery):
        reason = "spec.recovery was removed or changed"
    else:
        return None
    return GiveUpRecovery(
        target_of(survivor), str(recovery), f"the recovery is cancelled: {reason}"
    )


def _acceptance_of(node_id: int, survivor: Survivor) -> Confirmation:
    """The value of spec.recovery that accepts it."""
    return Confirmation(node_id, uuid_text(survivor.uuid), survivor.epoch, survivor.end_offset)


def holds_still(at: Situation, node_id: int, uuid: str | None, survivor: Survivor) -> bool:
    """Whether a member that is created again for its claim keeps the recovery noted there: it was carried out, or no
    majority confirms a leader and the user still accepts it. Otherwise the member would become the sole voter beside
    its old quorum.
    """
    if uuid == uuid_text(survivor.recovered_uuid):
        return True
    return at.view is None and at.seen.wanted.recovery == _acceptance_of(node_id, survivor)


def _fence(at: Situation, survivor: Incarnation) -> Step | None:
    others = [each for each in at.current if each.name != survivor.name]
    for each in others:
        if each.replicas > 0:
            reason = f"{each.name} must not come back: the quorum is recovered from {survivor.name}"
            return ScaleToZero(target_of(each), fence_text(survivor), reason)
    strays = [each for each in at.seen.stray_pods if not _is_of(each, survivor)]
    for stray in strays:
        if not stray.pod.deleting:
            reason = (
                f"{stray.pod.name} must not come back: the quorum is recovered from {survivor.name}"
            )
            return DeleteStrayPod(stray.pod.name, stray.pod.uid, reason)
    there = [each.pod for each in others if each.pod is not None]
    there += [stray.pod for stray in strays]
    if not there:
        return None
    names = ", ".join(f"{pod.name} on {pod.host}" for pod in there)
    return Wait(
        "the other members' pods must be gone before the survivor is changed",
        f"{names}; if a host is down, switch it off for good and delete its Node object, or force-delete the pod. An "
        "old voter that still runs there could split the quorum",
        RETRY_DELETED_S,
    )


def _is_of(stray: StrayPod, survivor: Incarnation) -> bool:
    return (stray.node_id, stray.number) == (survivor.node_id, survivor.number)


def _restart(at: Situation, survivor: Incarnation) -> Step:
    step = _with_its_template(at, survivor, "is to become the sole voter")
    return step or Wait(
        f"{survivor.name} becomes the sole voter", _process_of(survivor), RETRY_SURVIVOR_S
    )


def _with_its_template(at: Situation, survivor: Incarnation, what: str) -> Step | None:
    """Steps until its pod uses the current template."""
    wanted, pod = at.seen.templates.get(survivor.name), survivor.pod
    reason = f"{survivor.name} {what}"
    if wanted is not None and survivor.template_hash != wanted.template_hash:
        return UpdateMember(survivor.node_id, survivor.number, target_of(survivor), reason)
    if pod is None or pod.deleting or wanted is None:
        return Wait(reason, "its pod is restarting", RETRY_SURVIVOR_S)
    return None if pod.restart_hash == wanted.restart_hash else restart_of(at, pod, reason)


def _process_of(survivor: Incarnation) -> str:
    pod = survivor.pod
    message = None if pod is None else pod.exit_message or pod.waiting_reason
    return message or "its process is starting"
