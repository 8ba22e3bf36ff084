"""Observations about a single member: an indirect sign of a failed disk, a rejected pod."""

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
