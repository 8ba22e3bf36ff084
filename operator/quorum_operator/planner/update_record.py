"""The state of an update: the wanted revision, the last revision that all members ran, and the progress.

Owns the facts recorded on the identity, and their effect on one member. `updates.py` has the rules.
"""

from dataclasses import dataclass
from enum import StrEnum


class UpdateOutcome(StrEnum):
    """State of the last update."""

    SOAKING = "Soaking"
    """The canary has it, or is about to get it."""
    PASSED = "Passed"
    """All members should get it."""
    FAILED = "Failed"
    """No member should have it."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision: the parts of the spec for which a pod restarts."""

    id: str
    """Hash; equal for the same program with the same configuration."""
    parts: str
    """The parts of the spec, as JSON."""


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """Recorded on the identity while spec.update is set."""

    settled: Revision
    """Revision that all members have run while ready."""
    tried: str | None = None
    """The last started update: revision and attempt; None if there is none since then."""
    outcome: UpdateOutcome = UpdateOutcome.PASSED
    canary: str | None = None
    """StatefulSet of the canary."""
    why: str = ""
    """Why the canary failed."""
    at: float = 0.0
    """Time of the last change of the record."""

    def allows(self, wanted: str, tried: str, member: str | None) -> bool:
        """Whether a member should run the wanted revision; None: a member that is not the canary."""
        if wanted == self.settled.id:
            return True
        if tried != self.tried:
            return False
        passed = self.outcome is UpdateOutcome.PASSED
        return passed or (self.outcome is UpdateOutcome.SOAKING and member == self.canary)


@dataclass(frozen=True, slots=True)
class UpdateWanted:
    """The current values of spec.update and of the spec."""

    revision: Revision
    attempt: int
    soak_s: float
    timeout_s: float
    hold: str | None = None
    """Why no update starts, and no member restarts for one."""

    @property
    def tried(self) -> str:
        """The identifier of an update to this revision."""
        return tried_text(self.revision.id, self.attempt)


def tried_text(revision: str, attempt: int) -> str:
    """The identifier of an update in the record."""
    return f"{revision}.{attempt}"
