"""Updates with a canary, and a rollback if it fails.

Owns when an update starts, the choice of the canary, and when it counts as passed or failed. The revision of each
member follows from the record (`update_record.py`); the ordinary rules for templates and restarts apply it. The
record is written when all members run the same revision and are ready: without it there is nothing to roll back to,
and nothing is held back.
"""

from collections.abc import Iterator

from quorum_operator.planner.evidence import REPORTED_BY_THE_PROCESS
from quorum_operator.planner.observed import Incarnation, PodFacts
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RecordUpdate, Step
from quorum_operator.planner.times import text_of
from quorum_operator.planner.update_record import UpdateOutcome, UpdateRecord, UpdateWanted
from quorum_operator.update_crd import UpdateStatus

_CANT_START = frozenset(
    {
        *("CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull"),
        *(
            "InvalidImageName",
            "CreateContainerConfigError",
            "CreateContainerError",
            "RunContainerError",
        ),
    }
)


def plan_canary_result(at: Situation) -> Step | None:
    """The result of the canary. Also removes the record if spec.update was removed, and renews it if the spec was
    reverted.
    """
    record, update = _record(at), at.seen.update
    if record is None:
        return None
    if update is None:
        return _write(at, None, "spec.update was removed")
    if record.settled.id == update.revision.id:
        back = UpdateRecord(record.settled)
        return (
            _write(at, back, "the spec asks for the version that already runs")
            if record.tried
            else None
        )
    if record.tried != update.tried or record.outcome is not UpdateOutcome.SOAKING:
        return None
    canary = _canary(at, record)
    if canary is None:
        return _lost_canary(at, record)
    why = _failure(at, update, canary)
    if why is not None:
        failed = _outcome(at, record, UpdateOutcome.FAILED, why)
        return _write(at, failed, f"{canary.name} is rolled back: {why}")
    if not _has_passed(at, update, canary):
        return None
    passed = _outcome(at, record, UpdateOutcome.PASSED)
    return _write(at, passed, f"{canary.name} was ready and caught up for {update.soak_s:g} s")


def _lost_canary(at: Situation, record: UpdateRecord) -> Step:
    """The canary was removed or has failed: another one is chosen, unless its own process has condemned its disk. The
    update may be the reason, and would condemn one disk after the other.
    """
    gone = next((each for each in at.current if each.name == record.canary), None)
    latch = gone.failed if gone is not None else None
    if gone is None or latch is None or latch.reason not in REPORTED_BY_THE_PROCESS:
        why = f"{record.canary} no longer exists: another canary is chosen"
        return _write(at, UpdateRecord(record.settled), why)
    if latch.at < record.at or not (gone.pod is None or _has_the_update(at, gone)):
        why = (
            f"the disk of {record.canary} failed before it had the update: another canary is chosen"
        )
        return _write(at, UpdateRecord(record.settled), why)
    why = f"its disk failed ({latch.reason}: {latch.evidence})"
    failed = _outcome(at, record, UpdateOutcome.FAILED, why)
    return _write(at, failed, f"{gone.name} is not followed by others: {why}")


def plan_urgent_update(at: Situation) -> Step | None:
    """Update a member at once if it can't start with the previous revision: that is a repair."""
    update, record = at.seen.update, _record(at)
    if update is None or record is None or not _is_due(update, record):
        return None
    stuck = [each for each in at.current if _cant_start(at, each)]
    if not stuck:
        return None
    why = f"{stuck[0].name} can't start with its current version and configuration"
    if at.view is None or not update.soak_s:
        return _write(at, _begun(at, update, record, None), f"{why}: the update is rolled out")
    return _write(at, _begun(at, update, record, stuck[0]), f"{why}: it gets the update first")


def plan_update(at: Situation) -> Step | None:
    """Record the current revision, then start the next update. After all restarts, so that none is in progress."""
    update, record = at.seen.update, _record(at)
    if update is None or at.recorded_identity is None or not at.recorded_identity.formed:
        return None
    if record is None or (record.tried == update.tried and record.settled.id != update.revision.id):
        done = record is None or record.outcome is UpdateOutcome.PASSED
        if done and all(_runs_wanted(at, each) for each in _running(at)):
            return _write(at, UpdateRecord(update.revision), "all members run it and are ready")
        return None
    if not _is_due(update, record) or update.hold is not None or _unsettled(at) is not None:
        return None
    if not update.soak_s:
        return _write(
            at, _begun(at, update, record, None), "all members get the update, one at a time"
        )
    first = _first(at)
    if first is None:
        return None
    return _write(at, _begun(at, update, record, first), f"{first.name} gets the update first")


def restart_hold(at: Situation, each: Incarnation) -> str | None:
    """Why a member is not restarted for an update now. A rollback is always possible."""
    update, record = at.seen.update, _record(at)
    if update is None or update.hold is None:
        return None
    failed = record is not None and record.outcome is UpdateOutcome.FAILED
    return None if failed and each.name == record.canary else update.hold  # type: ignore[union-attr]


def rollout_state(at: Situation) -> tuple[str, str] | None:
    """Why not all members run the spec's revision, as reason and message; None if they do."""
    update, record = at.seen.update, _record(at)
    behind = [each.name for each in _running(at) if _is_behind(at, each)]
    ahead = record is not None and update is not None and record.settled.id != update.revision.id
    if update is None or record is None or not ahead:
        if not behind:
            return None
        held = f"; {update.hold}" if update is not None and update.hold else ""
        return "RollingOut", f"not updated yet: {', '.join(behind)}{held}"
    if record.tried == update.tried and record.outcome is UpdateOutcome.FAILED:
        message = (
            f"{record.canary} failed with the update: {record.why}. The members keep their previous version and "
            "configuration. Correct the spec, or raise spec.update.attempt to retry"
        )
        return "CanaryFailed", message
    if record.tried == update.tried and record.outcome is UpdateOutcome.SOAKING:
        message = (
            f"{record.canary} has the update, and has to be ready and caught up for {update.soak_s:g} s; the others "
            "wait"
        )
        return "Soaking", message
    pending = f"not updated yet: {', '.join(behind) or 'none'}"
    if update.hold is not None:
        message = f"{pending}; {update.hold}. Members that can't start are updated anyway"
        return "Held", message
    if record.tried == update.tried:
        return "RollingOut", pending
    return "Waiting", f"the update waits: {_unsettled(at) or 'it is about to start'}"


def update_status(at: Situation) -> UpdateStatus | None:
    """Status of an update that has not reached all members."""
    update, record = at.seen.update, _record(at)
    if update is None or record is None or record.settled.id == update.revision.id:
        return None
    if record.tried != update.tried:
        return UpdateStatus(held=update.hold)
    failed = record.why if record.outcome is UpdateOutcome.FAILED else None
    since = text_of(record.at)
    return UpdateStatus(canary=record.canary, since=since, failed=failed, held=update.hold)


def _record(at: Situation) -> UpdateRecord | None:
    identity = at.recorded_identity
    return identity.update if identity is not None else None


def _write(at: Situation, record: UpdateRecord | None, why: str) -> RecordUpdate:
    identity = at.recorded_identity
    assert identity is not None
    return RecordUpdate(identity.index, record, identity.resource_version, f"update: {why}")


def _is_due(update: UpdateWanted, record: UpdateRecord) -> bool:
    return update.revision.id != record.settled.id and update.tried != record.tried


def _begun(
    at: Situation, update: UpdateWanted, record: UpdateRecord, canary: Incarnation | None
) -> UpdateRecord:
    outcome = UpdateOutcome.SOAKING if canary is not None else UpdateOutcome.PASSED
    name = canary.name if canary is not None else None
    return UpdateRecord(record.settled, update.tried, outcome, name, at=at.now)


def _outcome(
    at: Situation, record: UpdateRecord, outcome: UpdateOutcome, why: str = ""
) -> UpdateRecord:
    return UpdateRecord(record.settled, record.tried, outcome, record.canary, why, at.now)


def _canary(at: Situation, record: UpdateRecord) -> Incarnation | None:
    return next((each for each in _running(at) if each.name == record.canary), None)


def _running(at: Situation) -> Iterator[Incarnation]:
    """Members that should run."""
    return (each for each in at.current if each.should_run)


def _first(at: Situation) -> Incarnation | None:
    """The canary: a voter that is not the leader, with the lowest id; the leader of a quorum of one. There are observers
    only while new members catch up, and no update starts then.
    """
    leader = at.view.leader if at.view is not None else None
    found = sorted(_running(at), key=lambda e: (e.key == leader, e.node_id))
    return found[0] if found else None


def _unsettled(at: Situation) -> str | None:
    """Why no canary is chosen now: its failure could not be distinguished from other problems."""
    if at.view is None:
        return "no majority confirms a leader"
    if at.live != at.voters:
        return "not all voters are live"
    unready = [each.name for each in _running(at) if not _is_ready(each.pod)]
    return f"not ready: {', '.join(unready)}" if unready else None


def _is_ready(pod: PodFacts | None) -> bool:
    return pod is not None and pod.ready and not pod.deleting


def _runs_wanted(at: Situation, each: Incarnation) -> bool:
    wanted, pod = at.seen.templates.get(each.name), each.pod
    if wanted is None or pod is None or not _is_ready(pod) or pod.runs_other:
        return False
    return pod.restart_hash == wanted.restart_hash and each.template_hash == wanted.template_hash


def _is_behind(at: Situation, each: Incarnation) -> bool:
    """Whether its process is outdated. A starting or missing pod counts as being updated."""
    wanted, pod = at.seen.templates.get(each.name), each.pod
    return wanted is not None and pod is not None and pod.restart_hash != wanted.restart_hash


def _has_the_update(at: Situation, each: Incarnation) -> bool:
    """Whether its pod uses the template with the update."""
    wanted, pod = at.seen.templates.get(each.name), each.pod
    if wanted is None or pod is None or pod.deleting:
        return False
    return pod.restart_hash == wanted.restart_hash and each.template_hash == wanted.template_hash


def _failure(at: Situation, update: UpdateWanted, canary: Incarnation) -> str | None:
    pod, limit = canary.pod, update.timeout_s
    if pod is None or not _has_the_update(at, canary):
        return None
    if pod.exit_code is not None:
        details = pod.exit_message or pod.exit_reason
        return f"its container ended with exit code {pod.exit_code}" + (
            f" ({details})" if details else ""
        )
    unready_since = max(pod.created_at, pod.not_ready_since or pod.created_at)
    if not pod.ready and at.now - unready_since >= limit:
        details = (
            ": ".join(filter(None, [pod.waiting_reason, pod.waiting_message])) or pod.unschedulable
        )
        return f"it was not ready for {limit:g} s" + (f" ({details})" if details else "")
    proven_at = _ready_since(at, update, pod) + update.soak_s
    if (
        pod.ready
        and at.view is not None
        and at.now - proven_at >= limit
        and not _is_caught_up(at, canary)
    ):
        return f"it did not catch up with the leader within {limit:g} s"
    if at.now - pod.created_at >= update.soak_s + 2 * limit and not _has_passed(at, update, canary):
        return f"it was not ready for {update.soak_s:g} s without a break"
    return None


def _has_passed(at: Situation, update: UpdateWanted, canary: Incarnation) -> bool:
    pod = canary.pod
    if pod is None or not _is_ready(pod) or not _has_the_update(at, canary):
        return False
    return at.now - _ready_since(at, update, pod) >= update.soak_s and _is_caught_up(at, canary)


def _ready_since(at: Situation, update: UpdateWanted, pod: PodFacts) -> float:
    """Time since which the pod is ready. The kubelet reports it by the clock of its host, which may be wrong, so the
    time is limited: from a clock that is behind, the soak time would end at once; from one that is ahead, it would
    never begin.
    """
    since = pod.ready_since if pod.ready_since is not None else at.now
    if since > at.now:
        since = min(pod.created_at + update.timeout_s, at.now)
    return max(since, pod.created_at)


def _is_caught_up(at: Situation, each: Incarnation) -> bool:
    return each.key in at.live or at.is_caught_up(each)


def _cant_start(at: Situation, each: Incarnation) -> bool:
    """Members that can't start with the previous revision, except for storage problems."""
    pod = each.pod
    if pod is None or each.failed is not None or pod.deleting or pod.ready:
        return False
    return pod.waiting_reason in _CANT_START and not pod.running
