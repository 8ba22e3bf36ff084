"""What is known of an update: what is wanted, what is proven, and how far it has come.

Owns the facts that are written on the identity, and what follows from them for one member. The rules are `updates.py`.
"""

from dataclasses import dataclass
from enum import StrEnum


class UpdateOutcome(StrEnum):
    """Of the update that was tried last."""

    SOAKING = "Soaking"
    """One member has it, or is about to get it."""
    PASSED = "Passed"
    """All members are to have it."""
    FAILED = "Failed"
    """No member is to have it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What members run: those parts of the spec for which a pod restarts."""

    id: str
    """Equal is what is the same program with the same configuration."""
    parts: str
    """The parts of the spec, as JSON."""


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """Written on the identity, while spec.update is set."""

    settled: Revision
    """What all members have run, ready and together."""
    tried: str | None = None
    """The update that was begun last: revision and attempt. None: none since then."""
    outcome: UpdateOutcome = UpdateOutcome.PASSED
    canary: str | None = None
    """StatefulSet of the member that is updated first."""
    why: str = ""
    """Why the canary failed."""
    at: float = 0.0
    """When that was written."""

    def allows(self, wanted: str, tried: str, member: str | None) -> bool:
        """Whether a member is to run the wanted revision; None: who is no canary. What has not begun is for nobody."""
        if wanted == self.settled.id:
            return True
        if tried != self.tried:
            return False
        passed = self.outcome is UpdateOutcome.PASSED
        return passed or (self.outcome is UpdateOutcome.SOAKING and member == self.canary)


@dataclass(frozen=True, slots=True)
class UpdateWanted:
    """What spec.update and the spec say now."""

    revision: Revision
    attempt: int
    soak_s: float
    timeout_s: float
    hold: str | None = None
    """Why no update begins, and no member restarts for one, in words."""

    @property
    def tried(self) -> str:
        """What an update to this revision is called."""
        return tried_text(self.revision.id, self.attempt)


def tried_text(revision: str, attempt: int) -> str:
    """An update, as the record names it."""
    return f"{revision}.{attempt}"
