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
    """The API server refuses a member's pod, or its claim, to the StatefulSets' controller."""

    reason: str
    """Reason as in the condition `Refused`."""
    message: str
    """The answer, and what to do."""
