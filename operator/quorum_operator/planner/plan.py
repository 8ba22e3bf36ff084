"""The plan: one observation in, exactly one step out. Total and deterministic.

The rules are tried in order; the first that has something to say decides. Latch first; then what
must exist before pods; repair and scaling share one rule for membership (design, "The operator" and
"Safety"), so that a repair never hides behind a readiness gate. Without a describe that a majority
confirmed nothing is stopped, removed or deleted.
"""

from collections.abc import Callable, Iterator

from quorum_operator.planner import evidence
from quorum_operator.planner.foreign_target import hold_for_target
from quorum_operator.planner.formation import plan_formation, plan_identity, plan_new_formation
from quorum_operator.planner.membership import plan_membership
from quorum_operator.planner.observed import Incarnation, Observation
from quorum_operator.planner.recovery import plan_recovery
from quorum_operator.planner.restart import plan_idle_restart, plan_restart
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.step import (
    ApplyObjects,
    DeleteIncarnation,
    LatchFailure,
    Nothing,
    RecordFormed,
    RecordReplicaUuid,
    ScaleToZero,
    StartMember,
    Step,
    Target,
    UpdateMember,
    Wait,
)

Rule = Callable[[Situation], Step | None]

RETRY_UNCONFIRMED_S = 0.5


def plan(seen: Observation) -> Step:
    """The one step to take now."""
    situation = Situation(seen)
    for rule in RULES:
        step = rule(situation)
        if step is not None:
            return step
    return Nothing(f"{len(situation.voters)} voters, as wanted")


def target(incarnation: Incarnation) -> Target:
    """The precondition of every write to a StatefulSet."""
    return Target(incarnation.name, incarnation.uid, incarnation.resource_version)


def _deleting(at: Situation) -> Step | None:
    if at.seen.deleting:
        return Nothing("the resource is being deleted; its claims follow spec.deletionPolicy")
    return None


def _latch(at: Situation) -> Step | None:
    for each in at.seen.incarnations:
        if each.failed is not None or each.stopped is not None:
            continue
        sign = _proof(at, each) or _lasting(at, each)
        if sign is not None:
            reason = f"{each.name}: {sign.reason} ({sign.evidence})"
            return LatchFailure(target(each), evidence.latch(sign, at.now), reason)
    return None


def _proof(at: Situation, each: Incarnation) -> evidence.Sign | None:
    sign = evidence.proof(each, at.now)
    if sign is None or sign.reason != evidence.REPLICA_REPLACED:
        return sign
    if each.report is not None and each.report.uuid == each.heir_uuid:
        return None
    # Where the old replica fetches, or this is another cluster's, someone else answered at the pod's former address.
    return None if _is_heard(at, each) or _is_foreign(at, each) else sign


def _is_foreign(at: Situation, each: Incarnation) -> bool:
    """Whether the answer came from another quorum's node of the same id."""
    report, identity = each.report, at.identity
    if report is None or identity is None:
        return False
    return report.cluster_id not in (None, identity.cluster_id)


def _is_heard(at: Situation, each: Incarnation) -> bool:
    """Whether the confirmed leader hears this replica."""
    view = at.view
    return view is not None and any(
        replica.key == each.key and (replica.fetching or replica.key == view.leader)
        for replica in (*view.voters, *view.observers)
    )


def _lasting(at: Situation, each: Incarnation) -> evidence.Sign | None:
    """A circumstance that lasted, on a replica that a confirmed leader does not hear."""
    wanted = at.seen.wanted
    if at.view is None or not wanted.repair_enabled or wanted.paused:
        return None
    sign = None if _is_heard(at, each) else evidence.circumstance(each, at.now)
    if sign is None or at.now - sign.since < wanted.debounce_s:
        return None
    return sign


def _paused(at: Situation) -> Step | None:
    return Nothing("spec.paused is set: no moves") if at.seen.wanted.paused else None


def _objects(at: Situation) -> Step | None:
    if not at.seen.stale_objects:
        return None
    return ApplyObjects(
        at.seen.stale_objects, "missing or changed: " + _some(at.seen.stale_objects)
    )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _record_formed(at: Situation) -> Step | None:
    """Before the last initial voter joins, not after: a crash in between must not form again."""
    identity, view = at.identity, at.view
    if identity is None or identity.formed or view is None:
        return None
    closing = len(view.voters) + 1 >= identity.initial_voters and bool(at.caught_up)
    if view.formed or closing:
        return RecordFormed(identity.index, "all initial voters are there or about to join")
    return None


def _record_uuid(at: Situation) -> Step | None:
    for each in at.current:
        if each.uuid is None and each.report is not None and each.failed is None:
            uuid = each.report.uuid
            if any(other.uuid == uuid for other in at.seen.incarnations):
                continue  # an answer from another pod's address
            return RecordReplicaUuid(target(each), uuid, f"{each.name} is replica {uuid}")
    return None


def _start(at: Situation) -> Step | None:
    for each in at.current:
        if each.replicas > 0 or each.failed is not None:
            continue
        voter = each.key in at.voters
        # What a recovery stopped that was given up afterwards is as good as before.
        if each.stopped is None or voter or each.stopped.startswith(FENCED):
            return StartMember(target(each), f"{each.name} should run")
    return None


def _stop_failed(at: Situation) -> Step | None:
    if at.view is None:
        return None
    for each in at.current:
        if each.failed is not None and each.replicas > 0:
            why = each.failed.reason
            return ScaleToZero(target(each), why, f"{each.name} failed ({why}); its volume is kept")
    return None


def _update(at: Situation) -> Step | None:
    for each in at.current:
        wanted = at.seen.templates.get(each.name)
        if wanted is None or each.failed is not None or each.stopped is not None:
            continue
        if each.template_hash != wanted.template_hash:
            reason = f"the template of {each.name} is out of date"
            return UpdateMember(each.node_id, each.number, target(each), reason)
    return None


def _unconfirmed(at: Situation) -> Step | None:
    if at.view is not None:
        return None
    return Wait(
        "no majority confirms a leader: nothing is stopped, removed or deleted",
        "no confirmed describe",
        RETRY_UNCONFIRMED_S,
    )


def _leftovers(at: Situation) -> Step | None:
    """Stop, then delete, what is neither voter nor newcomer. A pending change could be about it."""
    view = at.view
    if view is None or view.pending_change or not view.voters_committed:
        return None
    for each in at.leftovers:
        if each.replicas > 0:
            return ScaleToZero(target(each), "left", f"{each.name} is no member any more")
    for each in at.leftovers:
        if each.replicas == 0 and each.stopped is not None and each.pod is None:
            return DeleteIncarnation(target(each), f"{each.name} left and has stopped")
    return None


def _rules() -> Iterator[Rule]:
    yield _deleting
    yield _latch
    yield _paused
    yield plan_identity
    yield _objects
    yield plan_new_formation
    yield plan_recovery
    yield _record_formed
    yield _record_uuid
    yield _stop_failed
    yield _start
    yield _update
    yield plan_idle_restart
    yield plan_formation
    yield _unconfirmed
    yield hold_for_target
    yield plan_membership
    yield _leftovers
    yield plan_restart


RULES: tuple[Rule, ...] = tuple(_rules())
