"""Membership changes: scaling, retiring, repair and planned replacement are one rule.

Owns the order. New members start as observers. A voter is added once it has caught up and enough others are live
(counting the new one as not live). Otherwise, if a voter to be removed is not live, it is removed first. The leader
is removed last, after a transfer of leadership. From an odd size two new members join together, so that the even size
lasts for one commit only.
"""

from collections.abc import Iterator

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.gates import add_gate, change_gate, remove_gate
from quorum_operator.planner.member_problems import why_not_running
from quorum_operator.planner.observed import Incarnation, Key, QuorumView
from quorum_operator.planner.placement import planned, shortage
from quorum_operator.planner.refusals import held
from quorum_operator.planner.situation import Leaving, Situation, Slot, Why
from quorum_operator.planner.step import (
    AddVoter,
    CreateMember,
    RemoveVoter,
    Step,
    TransferLeadership,
    VotersPosition,
    Wait,
)
from quorum_operator.planner.unlatching import is_taken_back

RETRY_PENDING_S = 0.1
RETRY_CATCH_UP_S = 0.3
RETRY_NOT_RUNNING_S = 2.0
"""Interval while no new member's pod runs; changes of the pod wake the operator."""
RETRY_CATCH_UP_MOST_S = 10.0
RETRY_CATCH_UP_SHARE = 0.02
"""Fraction of the age of a new member: delay until the next check."""
RETRY_LIVE_S = 0.5
RETRY_CAPPED_S = 60.0


def plan_membership(at: Situation) -> Step | None:
    """The next step towards the wanted voters, or None if they are reached."""
    view = at.view
    assert view is not None
    if not at.leaving and not at.slots:
        return None
    created = create_new_member(at)
    if isinstance(created, CreateMember):
        return created
    blocked = change_gate(view)
    if blocked is not None:
        return Wait("a voter change is under way", blocked, RETRY_PENDING_S)
    # Alternate additions and removals: a leaving member may occupy the host that the next new one
    # needs.
    if not at.slots or (at.leaving and len(at.voters) > at.target):
        return _remove(at, view)
    if not at.caught_up:
        return created or _wait_for_new_members(at)
    return _add_or_remove(at, view)


def create_new_member(
    at: Situation, *, successors_only: bool = False
) -> CreateMember | Wait | None:
    """The step that creates a missing member, which starts as an observer; a Wait if something prevents it."""
    identity = at.identity
    assert identity is not None
    refused: CreateMember | None = None
    limited: Wait | None = None
    invalid, planned_slots = at.seen.invalid, planned(at)
    barred = planned_slots if invalid is not None or shortage(at) is not None else ()
    # A refused step of revoking a mark is retried, and the member itself comes back.
    back = {each.node_id for each in at.current if is_taken_back(at, each)}
    for slot in at.slots:
        if slot in barred or slot.node_id in back:
            continue
        if slot.incarnation is not None or (successors_only and slot.replaces is None):
            continue
        if at.seen.unmakeable is not None:
            return Wait(at.seen.unmakeable, "the spec", 5.0)
        limit = at.seen.wanted.max_replacements_per_hour
        if slot.replaces is not None and at.recent_replacements() >= limit:
            reason = f"{limit} members were replaced within the last hour"
            limited = Wait(reason, "spec.repair.maxReplacementsPerHour", RETRY_CAPPED_S)
            continue  # The limit concerns no member that replaces nobody.
        step = CreateMember(
            node_id=slot.node_id,
            number=at.next_number(slot.node_id),
            formation=identity.index,
            founder=False,
            replaces=slot.replaces,
            predecessor=slot.predecessor,
            reason=_new_member_reason(at, slot),
        )
        if held(at.seen, step) is None:
            return step
        refused = refused or step
    # First the steps of other new members; the refused one comes last.
    if at.caught_up or refused is not None:
        return None if at.caught_up else refused
    begun = any(slot.incarnation is not None for slot in at.slots)
    if limited is not None and not begun:
        return limited
    return Wait(invalid, "the spec", 5.0) if invalid is not None and barred and not begun else None


def _new_member_reason(at: Situation, slot: Slot) -> str:
    for entry in at.leaving:
        if entry.key.id == slot.node_id:
            return f"member {slot.node_id} needs a successor: {entry.why.value}"
    return f"the spec asks for {at.target} voters, {len(at.staying)} are present"


def _wait_for_new_members(at: Situation) -> Wait | None:
    """Wait with growing intervals; changes of their pods wake the operator anyway."""
    new_members = [slot.incarnation for slot in at.slots if slot.incarnation is not None]
    if not new_members:
        # The change is delayed before any member was created, and other steps continue.
        return None
    youngest = max((each.created_at for each in new_members), default=at.now)
    waited_s = max(at.now - youngest, 0.0)
    running = any(each.pod is not None and each.pod.running for each in new_members)
    first_s = RETRY_CATCH_UP_S if running else RETRY_NOT_RUNNING_S
    return Wait(
        "new members catch up as observers",
        "not caught up yet: " + ", ".join(map(_with_obstacle, new_members)),
        min(max(first_s, waited_s * RETRY_CATCH_UP_SHARE), RETRY_CATCH_UP_MOST_S),
    )


def _with_obstacle(each: Incarnation) -> str:
    """Its name, and why its pod does not run."""
    pod = each.pod
    if pod is None:
        refused = each.not_made
        return f"{each.name} (no pod yet{'' if refused is None else f': {refused.message}'})"
    if pod.unschedulable is not None:
        return f"{each.name} (can't be scheduled: {pod.unschedulable})"
    if not pod.running and not pod.ready:
        why = why_not_running(pod)
        return each.name if why is None else f"{each.name} ({why})"
    return each.name


def _add_or_remove(at: Situation, view: QuorumView) -> Step | None:
    order = at.seen.wanted.replacement_order
    first_leaving = at.leaving[0] if at.leaving else None
    if order is ReplacementOrder.REMOVE_FIRST and _may_go_first(at, view):
        return _remove(at, view)
    if first_leaving is not None and first_leaving.why is Why.UNREACHABLE:
        # The replica may return: then two voters would have this id.
        return _remove(at, view)
    if all(at.stands_twice(slot.node_id) for slot in at.caught_up):
        return _remove(at, view)
    failed = frozenset(_no_longer_voting(at))
    blocked = add_gate(view, order, replacing=first_leaving is not None, failed=failed)
    if blocked is None:
        return _add(at, view)
    # A leaving voter that is not live commits nothing. Without it the others need a smaller
    # majority.
    if first_leaving is not None and (first_leaving.dead or first_leaving.key not in at.live):
        return _remove(at, view)
    absent = ", ".join(str(key.id) for key in sorted(at.voters - (at.live - failed)))
    obstacle = f"{blocked}; not live: {absent}" if absent else blocked
    return Wait("a caught-up member waits to become a voter", obstacle, RETRY_LIVE_S)


def _no_longer_voting(at: Situation) -> Iterator[Key]:
    """Failed voters whose process has ended or can't write. A voter may also be marked as failed while it goes on to vote,
    for example by hand or because its PersistentVolume was deleted. Such a voter counts for as long as it is live.
    """
    for entry in at.leaving:
        if entry.why is not Why.DEAD:
            continue
        incarnation = at.by_key.get(entry.key)
        report = None if incarnation is None else incarnation.report
        if report is None or report.storage == "failed":
            yield entry.key


def _may_go_first(at: Situation, view: QuorumView) -> bool:
    """Whether the leaving voter may be removed before the new member is added. If that is not safe now, or the quorum
    grows, the new member is added first.
    """
    if not at.leaving or len(at.voters) <= 2:
        return False
    entry = at.leaving[0]
    blocked = _successor_not_ready(at, entry) or remove_gate(view, entry.key, at.target)
    return blocked is None


def _add(at: Situation, view: QuorumView) -> Step | None:
    alone = len(at.caught_up) == 1 and len(at.slots) > 1
    if alone and view.formed and len(view.voters) % 2 == 1 and not at.leaving:
        return _wait_for_new_members(at)
    first = next(slot for slot in at.caught_up if not at.stands_twice(slot.node_id))
    incarnation = first.incarnation
    assert incarnation is not None
    assert incarnation.uuid is not None
    key = Key(incarnation.node_id, incarnation.uuid)
    position = VotersPosition(view.voters_offset, view.voters_epoch)
    reason = f"{incarnation.name} has caught up"
    count = at.leaving != () and at.seen.wanted.replacement_order is ReplacementOrder.ADD_FIRST
    return AddVoter(key, incarnation.name, position, count, reason)


def _remove(at: Situation, view: QuorumView) -> Step:
    entry = at.leaving[0]
    unready = _successor_not_ready(at, entry)
    if unready is not None:
        return Wait(
            f"voter {entry.key.id} is to be removed: {entry.why.value}", unready, RETRY_CATCH_UP_S
        )
    blocked = remove_gate(view, entry.key, at.target)
    if blocked is not None:
        return Wait(
            f"voter {entry.key.id} is to be removed: {entry.why.value}", blocked, RETRY_LIVE_S
        )
    if entry.key == view.leader:
        return _transfer(at, view, entry)
    position = VotersPosition(view.voters_offset, view.voters_epoch)
    return RemoveVoter(entry.key, position, f"voter {entry.key.id}: {entry.why.value}")


def _successor_not_ready(at: Situation, entry: Leaving) -> str | None:
    """Why a voter can't be removed yet; None if it can. Its successor with the same id, if already a voter, must have
    fetched past its own addition.
    """
    twins = [key for key in at.staying if key.id == entry.key.id]
    if twins and not any(key in at.live for key in twins):
        return f"its successor {twins[0].uuid} has not caught up as a voter"
    return None


def _transfer(at: Situation, view: QuorumView, entry: Leaving) -> Step:
    successors = sorted(key for key in at.staying & at.live if key != entry.key)
    if not successors:
        return Wait("the leader is to be removed", "no other live voter remains", RETRY_LIVE_S)
    reason = f"leader {entry.key.id} is to be removed: {entry.why.value}"
    return TransferLeadership(view.leader, successors[0], reason)
