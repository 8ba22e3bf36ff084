"""What was tried for a resource, what came of it, and when each step may be tried again.

Owns the memory that backs off: of refused steps, and of steps that were carried out and are planned again all the same.
It is lost when the operator restarts, and no step rests on it: each is then tried once more.
"""

from dataclasses import dataclass

from quorum_operator.backoff import delay_s
from quorum_operator.planner.observed import Refusal
from quorum_operator.planner.refusals import CONTESTED

DONE_FIRST_S = 0.1
DONE_MOST_S = 300.0
"""Between two times that the same step is carried out."""
REMEMBERED_S = 60.0
"""A step that was not tried for this long beyond its delay begins anew."""
CONTESTED_TIMES = 6
"""From here on people are told that a step has no lasting effect."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why one thing could not be done. `passing`: so often in a row it is no news."""

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
    retry_at: float = 0.0
    times: int = 0
    refused: Refused | None = None


class Attempts:
    """Of one resource. Times are seconds since 1970 by the reconciler's clock."""

    def __init__(self) -> None:
        self._generation = 0
        self._entries: dict[tuple[str, str], _Entry] = {}

    def refusals(self, generation: int, now: float) -> tuple[Refusal, ...]:
        """What is held back, or refused until it is tried again. A changed resource begins anew."""
        entries = self._of(generation)
        for key, each in list(entries.items()):
            pause = max(each.retry_at - each.last_at, 0.0)
            # A clock that was set back must not hold anything for longer than that.
            if not each.last_at - pause <= now <= each.retry_at + pause + REMEMBERED_S:
                del entries[key]
        return tuple(
            _told(each)
            for each in entries.values()
            if each.refused is not None or each.retry_at > now or each.times >= CONTESTED_TIMES
        )

    def done(self, generation: int, step: str, subject: str, now: float) -> int:
        """It was carried out; returns how often in a row."""
        entry = self._entry(generation, step, subject, now)
        if entry.refused is not None:
            entry.refused, entry.times, entry.since = None, 0, now
        entry.times, entry.last_at = entry.times + 1, now
        entry.retry_at = now + delay_s(entry.times, DONE_FIRST_S, DONE_MOST_S)
        return entry.times

    def refused(self, generation: int, step: str, refused: Refused, now: float) -> int:
        """It was not; returns how often in a row for this reason."""
        entry = self._entry(generation, step, refused.subject, now)
        before = entry.refused
        if before is None:
            entry.times, entry.since = 0, now
        entry.refused, entry.times, entry.last_at = refused, entry.times + 1, now
        entry.retry_at = now + delay_s(entry.times, refused.first_s, refused.most_s)
        return 1 if before is None or before.reason != refused.reason else entry.times

    def settled(self, generation: int, now: float) -> None:
        """The plan wants nothing that could be tried now: what is due is not wanted any more."""
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


def _told(each: _Entry) -> Refusal:
    refused = each.refused
    if refused is not None:
        reason, message, tell = refused.reason, refused.message, each.times > refused.passing
    else:
        reason, tell = CONTESTED, each.times >= CONTESTED_TIMES
        message = (
            f"done {each.times} times within {max(each.last_at - each.since, 1.0):.0f} s, and needed again each time:"
            " somebody else changes it back. Find out who (kubectl get --show-managed-fields) and stop that"
        )
    return Refusal(
        each.step,
        each.subject,
        reason,
        message,
        each.retry_at,
        each.since,
        each.times,
        tell,
    )
