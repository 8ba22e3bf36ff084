"""What was noticed about a single member, beside its objects: a circumstance that lasts, a pod that is refused."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A circumstance that has shown without a break since `since`, by the status. `subject`: see `Sign`."""

    reason: str
    subject: str
    since: float


@dataclass(frozen=True, slots=True)
class NotMade:
    """The API server refuses a member's pod, or its claim, to the StatefulSets' controller."""

    reason: str
    """As of the condition `Refused`."""
    message: str
    """Its answer, and what to do."""
