"""Backoff of certificate steps that are refused, or executed again and again because another client reverts them.

Owns what counts as the same write. The memory is that of `attempts.py`; it is lost when the operator restarts.
"""

import hashlib

from quorum_operator.attempts import Attempts, Refused
from quorum_operator.certificates import steps
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.store import subject_of
from quorum_operator.desired.names import Owner
from quorum_operator.planner.observed import Refusal
from quorum_operator.refused import CONFLICT

MOST_TOLD = 3
"""Maximum number of objects in a message."""


class CertificateAttempts:
    """Of one quorum. Times are seconds since 1970 by the reconciler's clock."""

    def __init__(self) -> None:
        self._attempts = Attempts()

    def held(self, owner: Owner, generation: int, step: steps.Step, now: float) -> Refusal | None:
        """What holds the step back: it was executed or refused just now, and is planned again. `generation`: of the
        resource.
        """
        wanted = attempted(owner, step)
        for each in self._attempts.refusals(generation, now):
            if (each.step, each.subject) == wanted and each.retry_at > now:
                return each
        return None

    def done(self, owner: Owner, generation: int, step: steps.Step, now: float) -> int:
        """Record an execution; returns the number in a row."""
        return self._attempts.done(generation, *attempted(owner, step), now)

    def refused(
        self, owner: Owner, generation: int, step: steps.Step, why: Refused, now: float
    ) -> None:
        """Record a refusal."""
        kind, subject = attempted(owner, step)
        passing = why.passing if why.reason == CONFLICT else 0
        self._attempts.refused(
            generation, kind, Refused(subject, why.reason, why.message, passing=passing), now
        )

    def settled(self, generation: int, now: float) -> None:
        """Forget refusals that are due: what was refused is not planned any more."""
        self._attempts.settled(generation, now)

    def told(self, generation: int, now: float) -> str:
        """The objects that can't be written, or that another client changes back, with what to do; empty if there are none."""
        found = {
            each.subject: f"{each.subject}: {each.message}"
            for each in self._attempts.refusals(generation, now)
            if each.tell
        }
        return "; ".join([*found.values()][:MOST_TOLD])


def attempted(owner: Owner, step: steps.Step) -> tuple[str, str]:
    """What makes two steps the same attempt: what is written, and the object."""
    return _kind(step), _subject(owner, step)


def _subject(owner: Owner, step: steps.Step) -> str:
    """The object that it writes. Each authority is another object, so it is all of them if they are deleted each time."""
    if isinstance(step, steps.CreateAuthority):
        return f"Secret/{owner.name}-ca-*"
    return subject_of(owner, step)


def _kind(step: steps.Step) -> str:
    """The kind of the step, and a digest of what it writes: other content is new work and not a repetition."""
    digest = hashlib.sha256(_content(step).encode()).hexdigest()[:16]
    return f"{type(step).__name__} {digest}"


def _content(step: steps.Step) -> str:
    match step:
        case steps.ApplyTrust(bundle):
            return _names(bundle)
        case steps.RaiseSignedUntil(_, _, until):
            return str(until // DAY_S)
        case steps.WriteLeaf(_, generation, bundle):
            return f"{generation} {_names(bundle)} {step.revoked}"
        case steps.WriteBundle(_, bundle) | steps.TakePair(_, _, bundle):
            return f"{_names(bundle)} {sorted(step.extras)} {step.revoked}"
        case steps.RequestCertificate(_, request):
            return str(request["spec"])
    return ""


def _names(bundle: tuple[Read, ...]) -> str:
    return " ".join(sorted(each.fingerprint for each in bundle))
