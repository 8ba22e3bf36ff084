"""Backoff of certificate steps that are refused, or executed again and again because another client reverts them.

Defines which writes count as the same. The state is kept by `attempts.py`; it is lost when the operator restarts.
"""

import hashlib

from quorum_operator.attempts import Attempts, Refused
from quorum_operator.certificates import steps
from quorum_operator.certificates.lifetimes import DAY_S
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.store import subject_of
from quorum_operator.desired.names import Owner
from quorum_operator.planner.object_facts import Refusal
from quorum_operator.refused import ALREADY_EXISTS

MOST_REPORTED = 3
"""Maximum number of objects in a message."""


class CertificateAttempts:
    """Attempts of certificate steps for one quorum. Times are seconds since 1970 by the reconciler's clock."""

    def __init__(self) -> None:
        self._attempts = Attempts()

    def held(self, owner: Owner, generation: int, step: steps.Step, now: float) -> Refusal | None:
        """Return why the step is delayed: it was just executed or refused and is planned again. None if it is not
        delayed. `generation`: of the resource.
        """
        wanted = attempted(owner, step)
        for each in self._attempts.refusals(generation, now):
            if (each.step, each.subject) == wanted and each.retry_at > now:
                return each
        return None

    def done(self, owner: Owner, generation: int, step: steps.Step, now: float) -> int:
        """Record an execution. Returns the number of executions in a row."""
        return self._attempts.done(generation, *attempted(owner, step), now)

    def refused(
        self, owner: Owner, generation: int, step: steps.Step, why: Refused, now: float
    ) -> None:
        """Record a refusal."""
        kind, subject = attempted(owner, step)
        passing = 0 if why.reason == ALREADY_EXISTS else why.passing
        self._attempts.refused(
            generation, kind, Refused(subject, why.reason, why.message, passing=passing), now
        )

    def settled(self, generation: int, now: float) -> None:
        """Forget refused steps that are due, because they are no longer planned."""
        self._attempts.settled(generation, now)

    def message(self, generation: int, now: float) -> str:
        """A message about objects that can't be written or that another client reverts, with advice; empty if there are none."""
        found = {
            each.subject: f"{each.subject}: {each.message}"
            for each in self._attempts.refusals(generation, now)
            if each.reported
        }
        return "; ".join([*found.values()][:MOST_REPORTED])


def attempted(owner: Owner, step: steps.Step) -> tuple[str, str]:
    """Identify an attempt: by the kind of step with a digest of the written content, and by the object."""
    return _kind(step), _subject(owner, step)


def _subject(owner: Owner, step: steps.Step) -> str:
    """The object that the step writes. All new authorities count as one object, because each has a different name."""
    if isinstance(step, steps.CreateAuthority):
        return f"Secret/{owner.name}-ca-*"
    return subject_of(owner, step)


def _kind(step: steps.Step) -> str:
    """The kind of the step, and a digest of what it writes: different content is new work, not a repetition."""
    digest = hashlib.sha256(_content(step).encode()).hexdigest()[:16]
    return f"{type(step).__name__} {digest}"


def _content(step: steps.Step) -> str:
    match step:
        case steps.ApplyTrust(bundle):
            return _names(bundle)
        case steps.ExtendSignedUntil(_, _, until):
            return str(until // DAY_S)
        case steps.WriteLeaf(_, generation, bundle):
            return f"{generation} {_names(bundle)} {step.revoked}"
        case steps.WriteBundle(_, bundle) | steps.CopyIssuedPair(_, _, bundle):
            return f"{_names(bundle)} {sorted(step.extras)} {step.revoked}"
        case steps.RequestCertificate(_, request):
            return str(request["spec"])
    return ""


def _names(bundle: tuple[Read, ...]) -> str:
    return " ".join(sorted(each.fingerprint for each in bundle))
