"""Observations about a single object: an indirect sign of a failed disk, a rejected pod, a rejected step."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An indirect sign observed without interruption since `since`, according to the status. `subject`: see `Sign`."""

    reason: str
    subject: str
    since: float


@dataclass(frozen=True, slots=True)
class NotMade:
    """A member's pod or claim that the API server does not let the StatefulSet controller create."""

    reason: str
    """Reason as in the condition `Refused`."""
    message: str
    """The answer, and what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A step that was refused or had no lasting effect, and is not retried before `retry_at` (seconds since 1970)."""

    step: str  # kind of the step
    subject: str
    """The affected object or voter, such as StatefulSet/demo-1-1."""
    reason: str
    """One word in CamelCase, such as QuotaExceeded."""
    message: str
    retry_at: float
    since: float
    times: int = 1  # consecutive refusals
    reported: bool = True
    """Whether it is reported, or expected to pass within moments."""
