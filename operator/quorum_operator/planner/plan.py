"""The plan: one observation in, exactly one step out. Total and deterministic.

The rules are tried in order; the first that returns a step decides. Failure marks come first, then objects that must
exist before pods. Repair and scaling share one rule for membership, so a repair is never blocked by a readiness gate.
Templates come after it, except those of pods that can't start. Without a confirmed describe nothing is stopped,
removed or deleted; only pods that serve nobody are created again, from a corrected template. A refused step is not
retried for a while (`refusals.py`), and the following rules continue unless they depend on it.
"""

from collections.abc import Callable, Iterator

from quorum_operator.planner import evidence
from quorum_operator.planner.drains import plan_guard
from quorum_operator.planner.edited_notes import plan_edited_notes, true_replica
from quorum_operator.planner.foreign_target import hold_for_target
from quorum_operator.planner.formation import plan_formation, plan_identity, plan_new_formation
from quorum_operator.planner.growth import grows_to
from quorum_operator.planner.kept_volumes import loses_volume, plan_discard
from quorum_operator.planner.leaderless import plan_leaderless_restart
from quorum_operator.planner.membership import plan_membership
from quorum_operator.planner.observed import Incarnation, Observation
from quorum_operator.planner.placement import plan_held_move
from quorum_operator.planner.rebuilding import plan_rebuild
from quorum_operator.planner.recovery import may_start_again, plan_recovery
from quorum_operator.planner.refusals import (
    first_not_held,
    held,
    may_continue,
    next_attempt,
    waiting_for,
)
from quorum_operator.planner.restart import (
    is_unable_to_start,
    plan_down_restart,
    plan_forming_restart,
    plan_idle_restart,
    plan_restart,
)
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import (
    ApplyObjects,
    DeleteIncarnation,
    ExpandVolume,
    LatchFailure,
    Nothing,
    RecordFormed,
    RecordReplicaUuid,
    RestoreLabels,
    ScaleToZero,
    StartMember,
    Step,
    UpdateMember,
    Wait,
    target_of,
)
from quorum_operator.planner.stray_pods import plan_stray_pods
from quorum_operator.planner.suspicion import lasting, plan_suspicion
from quorum_operator.planner.tls_migration import plan_next_stage, plan_way_back
from quorum_operator.planner.tls_stage import first_stage
from quorum_operator.planner.unlatching import plan_unlatching, refutation
from quorum_operator.planner.updates import (
    plan_canary_result,
    plan_update,
    plan_urgent_update,
    rollout_state,
)

Rule = Callable[[Situation], Step | None]

RETRY_UNCONFIRMED_S = 0.5


def plan(seen: Observation) -> Step:
    """The one step to take now."""
    situation = Situation(seen)
    for rule in RULES:
        step = rule(situation)
        if step is None:
            continue
        refusal = held(seen, step)
        if refusal is None:
            return _until_next_attempt(seen, step)
        if rule in _IN_ORDER or not may_continue(situation, step):
            return waiting_for(seen, refusal)
    return _until_next_attempt(seen, Nothing(_settled(situation)))


def _settled(at: Situation) -> str:
    """Reason of the step Nothing: the state matches the spec. Names voters that are not live or may not stay live."""
    parts = [f"{len(at.voters)} voters, as wanted"]
    if absent := ", ".join(str(key.id) for key in sorted(at.voters - at.live)):
        parts.append(f"not live: {absent}")
    if lost := ", ".join(str(key.id) for key in at.unrepaired):
        parts.append(
            f"lost: {lost}; spec.repair.enabled is false, so a lost member is replaced only if it is listed in spec.retire"
        )
    away = at.reachability
    doubtful = [
        f"host {host.name} of member {each.node_id} is {host.state}"
        for each in at.current
        if (host := each.host_away) is not None
        if each.name not in away.unreachable and each.key in at.voters
    ]
    parts += [f"{text}, but the member fetches from the leader" for text in doubtful]
    update = rollout_state(at)
    return "; ".join([*parts, *filter(None, [away.advice(), update and update[1]])])


def _away(at: Situation) -> Step | None:
    return at.reachability.wait(at.others_are_dead) if at.view is not None else None


def _until_next_attempt(seen: Observation, step: Step) -> Step:
    """Limit the wait so that a refused step is retried when it is due."""
    coming = next_attempt(seen)
    if coming is None or seen.deleting or seen.wanted.paused:
        return step
    if isinstance(step, Nothing):
        return waiting_for(seen, coming)
    if isinstance(step, Wait):
        due_s = max(coming.retry_at - seen.now, 0.0)
        return Wait(step.reason, step.blocked_by, min(step.retry_after_s, due_s))
    return step


def _deleting(at: Situation) -> Step | None:
    if not at.seen.deleting:
        return None
    held = (
        f". It waits for its finalizers: {', '.join(at.seen.held_by)}. Who set them has to remove them; until then its "
        "members run on, and nothing is repaired"
    )
    text = "the resource is being deleted; its claims follow spec.deletionPolicy"
    return Nothing(text + (held if at.seen.held_by else ""))


def _latch(at: Situation) -> Step | None:
    def latch(each: Incarnation) -> Step | None:
        # The operator writes the mark of a stop together with the stop: one of a running member was edited.
        if each.failed is not None or (each.stopped is not None and each.replicas == 0):
            return None
        sign = _proof(at, each) or lasting(at, each)
        if sign is None:
            return None
        reason = f"{each.name}: {sign.reason} ({sign.evidence})"
        return LatchFailure(target_of(each), evidence.latch(sign, at.now), reason)

    return first_not_held(at.seen, map(latch, at.seen.incarnations))


def _proof(at: Situation, each: Incarnation) -> evidence.Sign | None:
    sign = evidence.proof(each)
    if sign is None or sign.reason != evidence.REPLICA_REPLACED:
        return sign
    if at.acts_as_voter(each) or true_replica(at, each) is not None:
        return None  # the annotation is wrong
    if each.report is not None and each.report.uuid == each.recovered_uuid:
        return None
    # If the old replica still fetches, or the answer is from another cluster, another process
    # answered at the pod's former address.
    return None if each.key in at.in_contact or _is_foreign(at, each) else sign


def _is_foreign(at: Situation, each: Incarnation) -> bool:
    """Whether the answer came from a node of another quorum with the same id."""
    report, identity = each.report, at.identity
    if report is None or identity is None:
        return False
    return report.cluster_id not in (None, identity.cluster_id)


def _paused(at: Situation) -> Step | None:
    """With spec.paused nothing is changed or reverted."""
    seen = at.seen
    if not seen.wanted.paused:
        return None
    drift = [f"{each.kind}/{each.name}" for each in seen.label_drift]
    put_off = tuple(dict.fromkeys([*drift, *seen.stale_objects]))
    suffix = f"; changes made by others are not reverted: {_some(put_off)}" if put_off else ""
    return Nothing(f"spec.paused is set: no changes are made{suffix}")


def _identity(at: Situation) -> Step | None:
    """The step for the identity. While a deleted one waits for answers of members, apply the objects that they need."""
    step = plan_identity(at)
    waits = isinstance(step, Wait) and at.identity is None and _matches_tls_mode(at)
    objects = _objects(at) if waits else None
    return step if objects is None else objects


def _matches_tls_mode(at: Situation) -> bool:
    """Whether all members were created with or without certificates as the spec asks of a new quorum. Without an
    identity only the spec determines their objects.
    """
    stage = first_stage(at.seen.wanted.tls_mode)
    return bool(at.current) and all(each.tls_stage is stage for each in at.current)


def _objects(at: Situation) -> Step | None:
    stale = at.seen.stale_objects
    due = tuple(each for each in stale if held(at.seen, ApplyObjects((each,), "")) is None)
    if due:
        return ApplyObjects(due, "missing or changed: " + _some(due))
    if stale and at.identity is not None and not at.identity.formed and at.view is None:
        # No pod starts without its ConfigMap and Secret: they come before any other step.
        return ApplyObjects(stale, "missing or changed: " + _some(stale))
    return None


def _labels(at: Situation) -> Step | None:
    seen = at.seen
    due = tuple(e for e in seen.label_drift if held(seen, RestoreLabels((e,), "")) is None)
    if not due:
        return None
    names = tuple(f"{each.kind}/{each.name}" for each in due)
    return RestoreLabels(due, "labels or owners were edited: " + _some(names))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _record_formed(at: Situation) -> Step | None:
    """Record the formation before the last initial voter joins: a crash in between must not repeat it."""
    identity, view = at.recorded_identity, at.view
    if identity is None or identity.formed:
        return None
    if at.identity is not None and at.identity.formed:
        return RecordFormed(identity.index, "the members report that the quorum has formed")
    if view is None:
        return None
    closing = len(view.voters) + 1 >= identity.initial_voters and bool(at.caught_up)
    if view.formed or closing:
        return RecordFormed(identity.index, "all initial voters have joined or are about to join")
    return None


def _restore_notes(at: Situation) -> Step | None:
    """Restore annotations that were removed from a StatefulSet and are on its claim."""

    def restore(each: Incarnation) -> Step | None:
        if "failed" in each.notes_lost and each.failed is not None:
            if refutation(at, each) is not None:
                return (
                    None  # Only its claim is marked, and the mark is wrong: it is revoked instead.
                )
            reason = f"{each.name}: its claim is marked failed ({each.failed.reason})"
            return LatchFailure(target_of(each), each.failed, reason)
        if "uuid" in each.notes_lost and each.uuid is not None:
            reason = f"{each.name}: its claim is annotated with replica {each.uuid}"
            return RecordReplicaUuid(target_of(each), each.uuid, reason)
        return None

    return first_not_held(at.seen, map(restore, at.seen.incarnations))


def _record_uuid(at: Situation) -> Step | None:
    def record(each: Incarnation) -> Step | None:
        if each.uuid is not None or each.report is None or each.failed is not None:
            return None
        uuid = each.report.uuid
        twins = (other for other in at.seen.incarnations if other.node_id == each.node_id)
        if any(other.uuid == uuid for other in twins):
            return None  # an answer from another pod's address
        return RecordReplicaUuid(target_of(each), uuid, f"{each.name} is replica {uuid}")

    return first_not_held(at.seen, map(record, at.current))


def _start(at: Situation) -> Step | None:
    def start(each: Incarnation) -> Step | None:
        if each.failed is not None or each.replicas == 1:
            return None
        if each.replicas > 1 and each.stopped is None:
            return StartMember(
                target_of(each), f"{each.name} has {each.replicas} replicas, not one"
            )
        voter = each.key in at.voters
        # A member stopped by a recovery that was abandoned is usable again.
        fenced = each.stopped is not None and each.stopped.startswith(FENCED)
        idle = may_start_again(at, each) if fenced else each.stopped is None or voter
        wanted = each.replicas == 0 and idle
        return StartMember(target_of(each), f"{each.name} should run") if wanted else None

    return first_not_held(at.seen, map(start, at.current))


def _expand(at: Situation) -> Step | None:
    """Expand volumes, also with a full disk and without a leader, because nothing restarts."""
    wanted = at.seen.wanted.storage

    def expand(each: Incarnation) -> Step | None:
        grows = grows_to(each, wanted) and each.failed is None and each.stopped is None
        if at.seen.invalid is not None or not grows or each.claim is None:
            return None
        reason = f"the claim of {each.name} is expanded from {each.storage.size} to {wanted.size}"
        return ExpandVolume(target_of(each), each.claim.name, each.claim.uid, wanted, reason)

    return first_not_held(at.seen, map(expand, at.current))


def _stop_failed(at: Situation) -> Step | None:
    """Stop failed members. A voter that fetches from the leader is replaced first and stopped when it is no longer a
    voter.
    """

    def stop(each: Incarnation) -> Step | None:
        if each.failed is None or each.replicas == 0:
            return None
        why = each.failed.reason
        doubtful = why in evidence.CIRCUMSTANCES and not at.seen.wanted.repair_enabled
        if each.key in at.voters and (doubtful or each.key in at.in_contact):
            return None
        return ScaleToZero(target_of(each), why, f"{each.name} failed ({why}); its volume is kept")

    return None if at.view is None else first_not_held(at.seen, map(stop, at.current))


def _update_idle(at: Situation) -> Step | None:
    """Update templates of pods that can't start, new members first, because an old template may be the cause."""
    idle = [each for each in at.current if is_unable_to_start(each)]
    return first_not_held(at.seen, (_update_of(at, each) for each in at.non_voters_first(idle)))


def _update(at: Situation) -> Step | None:
    return first_not_held(
        at.seen, (_update_of(at, each) for each in at.non_voters_first(at.current))
    )


def _update_unconfirmed(at: Situation) -> Step | None:
    """Without a leader templates are updated, too. Nothing restarts, but a pod that is deleted by hand comes back with
    the corrected one.
    """
    return _update(at) if at.view is None else None


def _update_of(at: Situation, each: Incarnation) -> Step | None:
    wanted = at.seen.templates.get(each.name)
    # The mark of a stop on a member that should run was edited. Without a leader it can't be removed.
    is_stopped = each.stopped is not None and each.replicas == 0
    is_out = each.failed is not None or is_stopped
    if wanted is None or (is_out and not loses_volume(each)):
        return None
    if each.template_hash == wanted.template_hash and each.drift is None:
        return None
    old = each.template_hash != wanted.template_hash
    reason = "out of date" if old else f"changed by another client: {each.drift}"
    return UpdateMember(
        each.node_id, each.number, target_of(each), f"the template of {each.name} is {reason}"
    )


def _membership(at: Situation) -> Step | None:
    """Membership changes. While they wait, templates are updated, and members restarted that serve nothing."""
    step = plan_membership(at)
    if not isinstance(step, Wait):
        return step
    for other in (
        _update(at),
        _leftovers(at),
        plan_stray_pods(at),
        plan_down_restart(at),
    ):
        if other is not None and held(at.seen, other) is None:
            return other
    return step


def _unconfirmed(at: Situation) -> Step | None:
    if at.view is not None:
        return None
    return Wait(
        "no majority confirms a leader: nothing is stopped, removed or deleted",
        "no confirmed describe",
        RETRY_UNCONFIRMED_S,
    )


def _leftovers(at: Situation) -> Step | None:
    """Stop, then delete, members that are neither voters nor new members, unless a pending change may concern them."""
    view = at.view
    if view is None or view.pending_change or not view.voters_committed:
        return None
    stops = [
        ScaleToZero(target_of(each), "left", f"{each.name} is no longer a member")
        for each in at.leftovers
        if each.replicas > 0
    ]
    deletions = [
        DeleteIncarnation(target_of(each), f"{each.name} was removed and has stopped")
        for each in at.leftovers
        if each.replicas == 0 and each.stopped is not None and each.pod is None
        if not each.held_by  # It is being deleted already, and waits for finalizers.
    ]
    return first_not_held(at.seen, [*stops, *deletions])


def _rules() -> Iterator[Rule]:
    yield _deleting
    yield _latch
    yield _paused
    yield _labels
    yield _identity
    yield plan_way_back
    yield _objects
    yield plan_guard
    yield plan_new_formation
    yield plan_rebuild
    yield plan_recovery
    yield _record_formed
    yield _restore_notes
    yield plan_edited_notes
    yield _record_uuid
    yield plan_unlatching
    yield plan_canary_result
    yield plan_urgent_update
    yield _stop_failed
    yield _start
    yield _expand
    yield _update_idle
    yield plan_idle_restart
    yield _update_unconfirmed
    yield plan_forming_restart
    yield plan_formation
    yield plan_leaderless_restart
    yield _unconfirmed
    yield hold_for_target
    yield _membership
    yield _update
    yield _leftovers
    yield plan_stray_pods
    yield plan_restart
    yield plan_update
    yield plan_discard
    yield plan_suspicion
    yield _away
    yield plan_next_stage
    yield plan_held_move


RULES: tuple[Rule, ...] = tuple(_rules())
_IN_ORDER: frozenset[Rule] = frozenset({plan_new_formation, plan_recovery})
"""Rules on whose steps the following rules depend."""
