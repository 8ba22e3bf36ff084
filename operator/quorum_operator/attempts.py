"""Attempts of steps for a resource, their outcome, and when each step may be retried.

Stores the state for exponential backoff: of refused steps, and of steps that were executed and are planned again. It
is lost when the operator restarts; then each step is tried once more.
"""

from dataclasses import dataclass

from quorum_operator.backoff import delay_s
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.planner.refusals import CONTESTED

DONE_FIRST_S = 0.1
DONE_MOST_S = 45.0
"""Longest pause between two executions of the same step."""
RESTARTED_MOST_S = 300.0
"""The same for restarts of a pod."""
REMEMBERED_S = 60.0
"""A step that was not tried for this long beyond its delay starts again without a delay."""
CONTESTED_FOR_S = 10.0
"""A step that was not executed again for this long beyond its pause has its effect: nobody reverts it any more."""
CONTESTED_TIMES = 6
"""Number of executions after which a step is reported as having no lasting effect."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a step was refused. `passing`: number of times in a row that are not reported."""

    subject: str
    reason: str
    message: str
    first_s: float = 1.0
    most_s: float = 60.0
    passing: int = 0


@dataclass(slots=True)
class _Entry:
    step: str
    subject: str
    since: float
    last_at: float
    value: str = ""
    retry_at: float = 0.0
    times: int = 0
    refused: Refused | None = None


class Attempts:
    """Attempts for one resource. Times are seconds since 1970 by the reconciler's clock."""

    def __init__(self) -> None:
        self._generation = 0
        self._entries: dict[tuple[str, str], _Entry] = {}

    def refusals(self, generation: int, now: float) -> tuple[Refusal, ...]:
        """Steps that were refused, are delayed, or had no lasting effect. A changed resource starts without delays."""
        entries = self._of(generation)
        for key, each in list(entries.items()):
            pause = max(each.retry_at - each.last_at, 0.0)
            # After the clock was set back, no entry may delay a retry for longer than this.
            if not each.last_at - pause <= now <= each.retry_at + pause + REMEMBERED_S:
                del entries[key]
        return tuple(
            _refusal(each)
            for each in entries.values()
            if each.refused is not None or each.retry_at > now or _is_contested(each, now)
        )

    def done(
        self,
        generation: int,
        step: str,
        subject: str,
        now: float,
        value: str = "",
        most_s: float = DONE_MOST_S,
    ) -> int:
        """Record an execution. Returns the number of executions in a row.

        `value`: what was written. A different value counts as new work, not as a repetition. `most_s`: the longest pause
        until the next one.
        """
        entry = self._entry(generation, step, subject, now)
        if entry.refused is not None or entry.value != value:
            entry.refused, entry.times, entry.since, entry.value = None, 0, now, value
        entry.times, entry.last_at = entry.times + 1, now
        entry.retry_at = now + delay_s(entry.times, DONE_FIRST_S, most_s)
        return entry.times

    def refused(self, generation: int, step: str, refused: Refused, now: float) -> int:
        """Record a refusal. Returns the number of refusals in a row for this reason."""
        entry = self._entry(generation, step, refused.subject, now)
        before = entry.refused
        if before is None:
            entry.times, entry.since = 0, now
        entry.refused, entry.times, entry.last_at = refused, entry.times + 1, now
        entry.retry_at = now + delay_s(entry.times, refused.first_s, refused.most_s)
        return 1 if before is None or before.reason != refused.reason else entry.times

    def settled(self, generation: int, now: float) -> None:
        """Forget refused steps that are due, because they are no longer planned."""
        entries = self._of(generation)
        for key, each in list(entries.items()):
            if each.refused is not None and each.retry_at <= now:
                del entries[key]

    def _of(self, generation: int) -> dict[tuple[str, str], _Entry]:
        if self._generation != generation:
            self._generation, self._entries = generation, {}
        return self._entries

    def _entry(self, generation: int, step: str, subject: str, now: float) -> _Entry:
        entries = self._of(generation)
        return entries.setdefault((step, subject), _Entry(step, subject, now, now))


def _is_contested(each: _Entry, now: float) -> bool:
    return each.times >= CONTESTED_TIMES and now <= each.retry_at + CONTESTED_FOR_S


def _refusal(each: _Entry) -> Refusal:
    refused = each.refused
    if refused is not None:
        reason, message, reported = refused.reason, refused.message, each.times > refused.passing
    else:
        reason, reported = CONTESTED, each.times >= CONTESTED_TIMES
        message = (
            f"repeated {each.times} times within {max(each.last_at - each.since, 1.0):.0f} s, each time reverted: "
            "another client changes the object back. Find it (kubectl get --show-managed-fields) and stop it"
        )
    return Refusal(
        each.step,
        each.subject,
        reason,
        message,
        each.retry_at,
        each.since,
        each.times,
        reported,
    )
