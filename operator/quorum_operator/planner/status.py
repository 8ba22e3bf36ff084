"""The status, from the observation and the planned step.

Pure. The earlier status is used only for transition times, the start of the plan, repairs, and values that must not be
lost while they can't be observed: cluster id, number of voters, epochs.
"""

import math

from quorum_node.quorum_arithmetic import tolerance
from quorum_operator.planner.conditions import Finding, all_findings
from quorum_operator.planner.kept_volumes import kept_volumes
from quorum_operator.planner.member_problems import (
    damaged_records,
    is_disk_full,
    lost_records,
    member_problem,
)
from quorum_operator.planner.observed import Incarnation, Key, Observation
from quorum_operator.planner.quorum_loss import QuorumLoss, is_lost
from quorum_operator.planner.recovery import under_way
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import AddVoter, RemoveVoter, Step, Wait
from quorum_operator.planner.suspicion import suspicion_of
from quorum_operator.planner.times import seconds_of, text_of
from quorum_operator.planner.tls_migration import is_migrating
from quorum_operator.planner.updates import update_status
from quorum_operator.status_crd import (
    Condition,
    FailureTolerance,
    LeaderStatus,
    MemberStatus,
    MetadataQuorumStatus,
    Phase,
    PlanStatus,
    RepairStatus,
    SuspectedStatus,
)
from quorum_operator.tls_crd import TlsMode, TlsStatus

MAX_REPAIRS = 10


def build_status(
    seen: Observation, step: Step, earlier: MetadataQuorumStatus, selector: str
) -> MetadataQuorumStatus:
    """The whole status as it is to be written."""
    at = Situation(seen)
    phase = _phase(at)
    view = at.view
    members = _members(at)
    loss = QuorumLoss(at).status() if is_lost(at) else None
    return MetadataQuorumStatus(
        phase=phase,
        observed_generation=seen.generation,
        replicas=sum(1 for each in at.current if each.pod is not None and each.failed is None),
        ready_replicas=sum(1 for member in members if member.ready),
        voters=len(at.voters) if view is not None else _known_voters(at, earlier),
        selector=selector,
        cluster_id=_cluster_id(at, earlier),
        leader=LeaderStatus(id=view.leader.id, epoch=view.epoch) if view is not None else None,
        newest_epoch=_newest(at, earlier.newest_epoch, earlier.cluster_id, "epoch"),
        recovered_epoch=_newest(at, earlier.recovered_epoch, earlier.cluster_id, "recovered_epoch"),
        members=members,
        plan=_plan(seen, step, earlier),
        failure_tolerance=_tolerance(at, step)
        if view is not None
        else _no_tolerance(loss is not None),
        quorum_loss=loss,
        conditions=[
            condition_of(finding, earlier.conditions, generation=seen.generation, now=seen.now)
            for finding in all_findings(at, phase, loss, step, members)
        ],
        repairs=_repairs(at, earlier),
        tls=_tls(at),
        backup=seen.backups.status if seen.backups is not None else None,
        update=update_status(at),
        kept_volumes=kept_volumes(at),
    )


def _tls(at: Situation) -> TlsStatus | None:
    """The TLS status of a quorum with certificates."""
    found = at.seen.certificates
    if found is None:
        return None
    due = text_of(found.renewal_at) if found.renewal_at is not None else None
    mode = TlsMode.MIGRATING if is_migrating(at) else TlsMode.MANAGED
    return TlsStatus(mode=mode, stage=at.tls_stage.value, authority=found.authority, renewal_at=due)


def _cluster_id(at: Situation, earlier: MetadataQuorumStatus) -> str | None:
    """The cluster id, kept if the identity was deleted: the status may be its last source."""
    return at.identity.cluster_id if at.identity is not None else earlier.cluster_id


def _known_voters(at: Situation, earlier: MetadataQuorumStatus) -> int:
    """The last confirmed number of voters; reset by a new formation."""
    return earlier.voters if earlier.cluster_id in (None, _cluster_id(at, earlier)) else 0


def _newest(at: Situation, before: int | None, of_cluster: str | None, name: str) -> int | None:
    """The newest confirmed epoch, which only grows; reset by a new identity."""
    cluster_id = at.identity.cluster_id if at.identity is not None else of_cluster
    known = before if of_cluster == cluster_id and not at.seen.epochs_edited else None
    if at.view is None or at.view.cluster_id != cluster_id:
        return known
    seen: int = getattr(at.view, name)
    return max(seen, known or 0) or None


def _phase(at: Situation) -> Phase:
    seen, identity, view = at.seen, at.identity, at.view
    if seen.deleting:
        return Phase.DELETING
    if seen.wanted.paused:
        return Phase.PAUSED
    if identity is None:
        return Phase.DEGRADED if at.current else Phase.PENDING
    if under_way(at) is not None:
        return Phase.RECOVERING
    if not identity.formed and (view is None or not view.formed):
        return Phase.FORMING
    if view is None:
        return Phase.QUORUM_LOST if is_lost(at) else Phase.DEGRADED
    if any(is_disk_full(each) for each in at.current):
        return Phase.DISK_FULL
    replaced = any(entry.dead for entry in at.leaving)
    if replaced or any(slot.replaces is not None for slot in at.slots):
        return Phase.REPAIRING
    going = [each for each in at.leftovers if not _has_left(at, each)]
    if at.leaving or at.slots or going:
        return Phase.SCALING
    ready = all(
        _is_ready(each) for each in at.current if each.failed is None and not _has_left(at, each)
    )
    return Phase.READY if at.live == at.voters and ready else Phase.DEGRADED


def _has_left(at: Situation, each: Incarnation) -> bool:
    """Whether only the deletion of its pod is missing, which can't be observed while its host is down."""
    away = each.name in at.reachability.unreachable
    return away and each.replicas == 0 and each.stopped is not None and each.key not in at.voters


def _is_ready(each: Incarnation) -> bool:
    return each.pod is not None and each.pod.ready and not each.pod.deleting


def _members(at: Situation) -> list[MemberStatus]:
    view = at.view
    replicas = {} if view is None else {r.key: r for r in (*view.observers, *view.voters)}
    members = []
    for each in at.current:
        key = each.key
        voter = key is not None and key in at.voters
        if not voter and each.replicas == 0 and each.pod is None and not each.held_by:
            continue
        replica = replicas.get(key) if key is not None else None
        away = at.reachability.unreachable.get(each.name)
        members.append(
            MemberStatus(
                id=each.node_id,
                incarnation=each.number,
                uuid=each.known_uuid,
                role=_role(at, each, key),
                voter=voter,
                lag=replica.lag if replica is not None and replica.fetching else None,
                ready=_is_ready(each) and each.failed is None,
                pod=each.pod.name if each.pod is not None else None,
                pvc=each.claim.name if each.claim is not None else None,
                node=each.pod.host if each.pod is not None else None,
                condition=member_problem(each, at.now, away.text if away is not None else None)
                or lost_records(replica)
                or damaged_records(replica),
                unreachable_since=text_of(math.ceil(away.since)) if away is not None else None,
                suspected=_suspected(at, each),
            )
        )
    missing = sorted(at.voters - at.by_key.keys())
    members += [
        MemberStatus(id=key.id, uuid=key.uuid, voter=True, condition="NoStatefulSet")
        for key in missing
    ]
    return sorted(members, key=lambda member: (member.id, member.incarnation or 0))


def _suspected(at: Situation, each: Incarnation) -> SuspectedStatus | None:
    """Suspicions with times rounded up to full seconds, so that a debounce never ends early."""
    found = suspicion_of(at, each)
    if found is None:
        return None
    since = text_of(math.ceil(found.since))
    return SuspectedStatus(reason=found.reason, subject=found.subject, since=since)


def _role(at: Situation, each: Incarnation, key: Key | None) -> str | None:
    if at.view is not None and key == at.view.leader:
        return "leader"
    return each.report.role if each.report is not None else None


def _plan(seen: Observation, step: Step, earlier: MetadataQuorumStatus) -> PlanStatus:
    name = type(step).__name__
    since = text_of(seen.now)
    old = earlier.plan
    if old is not None and (old.step, old.reason) == (name, step.reason):
        since = old.since or since
    blocked = step.blocked_by if isinstance(step, Wait) else None
    return PlanStatus(step=name, reason=step.reason, blocked_by=blocked, since=since)


def _tolerance(at: Situation, step: Step) -> FailureTolerance:
    size, live = len(at.voters), len(at.live)
    now = tolerance(size, live)
    after = now
    if isinstance(step, AddVoter):
        after = tolerance(size + 1, live + 1)
    elif isinstance(step, RemoveVoter):
        after = tolerance(size - 1, len(at.live - {step.key}))
    return FailureTolerance(now=max(now, 0), after_next_step=max(after, 0))


def _no_tolerance(lost: bool) -> FailureTolerance | None:
    return FailureTolerance(now=0, after_next_step=0) if lost else None


def condition_of(
    finding: Finding, earlier: list[Condition], *, generation: int, now: float
) -> Condition:
    """The written condition, with the time of its last change."""
    value = "True" if finding.holds else "False"
    since = text_of(now)
    for old in earlier:
        same = old.type == finding.type and old.status == value
        if same and seconds_of(old.last_transition_time) <= now:
            since = old.last_transition_time
    return Condition(
        type=finding.type,
        status=value,
        reason=finding.reason,
        message=finding.message,
        last_transition_time=since,
        observed_generation=generation,
    )


def _repairs(at: Situation, earlier: MetadataQuorumStatus) -> list[RepairStatus]:
    known = {(entry.id, entry.incarnation): entry for entry in earlier.repairs}
    for each in sorted(at.seen.incarnations, key=lambda one: (one.node_id, one.number)):
        place = (each.node_id, each.number)
        if each.failed is None:
            if place in known and known[place].finished_at is None:
                del known[place]  # its failure mark was revoked
            continue
        if place in known and known[place].finished_at is not None:
            continue
        known[place] = _repair(at, each)
    ordered = sorted(known.values(), key=lambda entry: (entry.started_at, entry.id))
    return ordered[-MAX_REPAIRS:]


def _repair(at: Situation, each: Incarnation) -> RepairStatus:
    assert each.failed is not None
    replacement = next(
        (key for key in sorted(at.voters) if key.id == each.node_id and key.uuid != each.uuid), None
    )
    settled = at.view is not None and not at.leaving and not at.slots
    finished = text_of(at.now) if settled and each.key not in at.voters else None
    started = each.failed.first_sign_at
    return RepairStatus(
        id=each.node_id,
        incarnation=each.number,
        from_uuid=each.uuid,
        to_uuid=replacement.uuid if replacement is not None else None,
        reason=each.failed.reason,
        started_at=text_of(started),
        finished_at=finished,
        seconds=round(at.now - started, 1) if finished is not None else None,
    )
