"""The status of a PartitionReassignment, from the result of one reconcile. PURE.

The earlier status is used only for start and end times, transition times of conditions, and the numbers while the
quorum does not answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from quorum_operator.planner.conditions import Finding
from quorum_operator.planner.reassignment import Finished, Step, Tally
from quorum_operator.planner.status import condition_of
from quorum_operator.planner.times import text_of
from quorum_operator.reassignment_crd import (
    FINAL,
    MAX_PROBLEMS,
    PartitionProblem,
    PartitionReassignmentStatus,
    ReassignmentPhase,
)

PROGRESSING = "Progressing"
"""This resource is active, and partitions move or are about to."""
QUORUM_REACHABLE = "QuorumReachable"
"""The quorum answered in the last reconcile that asked it."""
REFUSED = "PartitionsRefused"
"""Some partitions can't be moved as requested; the others are moved."""
COMPLETE = "Complete"
"""Every partition has arrived."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Held:
    """Why a reconcile has no plan; `reason` in CamelCase."""

    reason: str
    message: str
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of a reconcile; `refusal`: why the step failed."""

    found: Tally
    step: Step
    paused: bool = False
    refusal: str = ""


Outcome = Held | Planned


def build_status(
    outcome: Outcome,
    earlier: PartitionReassignmentStatus,
    *,
    total: int,
    generation: int,
    now: float,
) -> PartitionReassignmentStatus:
    """The whole status as it is to be written."""
    phase = _phase(outcome, earlier)
    status = earlier.model_copy(
        update={"phase": phase, "observed_generation": generation, "total": total}
    )
    if isinstance(outcome, Planned):
        found = outcome.found
        status.done = len(found.done)
        status.moving = len(found.moving)
        status.waiting = len(found.waiting) + len(found.elsewhere)
        status.failed = len(found.problems)
        status.problems = [
            PartitionProblem(**each._asdict()) for each in found.problems[:MAX_PROBLEMS]
        ]
        if phase is not ReassignmentPhase.PENDING and status.started_at is None:
            status.started_at = text_of(now)
    if phase in FINAL:
        status.finished_at = status.finished_at or text_of(now)
    status.conditions = [
        condition_of(finding, earlier.conditions, generation=generation, now=now)
        for finding in _findings(outcome, status)
    ]
    return status


def _phase(outcome: Outcome, earlier: PartitionReassignmentStatus) -> ReassignmentPhase:
    if isinstance(outcome, Held):
        return earlier.phase if outcome.unreachable else ReassignmentPhase.PENDING
    if isinstance(outcome.step, Finished):
        return outcome.step.phase
    return ReassignmentPhase.PAUSED if outcome.paused else ReassignmentPhase.RUNNING


def _findings(outcome: Outcome, status: PartitionReassignmentStatus) -> Iterator[Finding]:
    if isinstance(outcome, Held):
        running = status.phase is ReassignmentPhase.RUNNING
        yield Finding(PROGRESSING, running, outcome.reason, outcome.message)
        if outcome.unreachable:
            yield Finding(QUORUM_REACHABLE, False, outcome.reason, outcome.message)
    else:
        text = outcome.step.reason
        if outcome.refusal:
            text += f", but: {outcome.refusal}"
        moving = status.phase is ReassignmentPhase.RUNNING
        reason = "StepRefused" if outcome.refusal else type(outcome.step).__name__
        yield Finding(PROGRESSING, moving, reason, text)
        yield Finding(QUORUM_REACHABLE, True, "Answered", "the quorum answers")
    failed = status.failed
    named = "; ".join(each.message for each in status.problems[:_NAMED])
    more = " …" if failed > _NAMED else ""
    yield Finding(
        REFUSED,
        failed > 0,
        "PartitionsRefused" if failed else "AllCanMove",
        f"{failed} partitions can't be moved: {named}{more}. Correct them in a new PartitionReassignment"
        if failed
        else "all partitions can be moved",
    )
    complete = status.phase is ReassignmentPhase.COMPLETED
    count = f"{status.done} of {status.total} partitions have arrived"
    yield Finding(COMPLETE, complete, "AllArrived" if complete else status.phase.value, count)
