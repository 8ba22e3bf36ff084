"""Observations about a single object: an indirect sign of a failed disk, edits, another owner, a rejected pod, a rejected step, a
desired template.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An indirect sign observed without interruption since `since`, according to the status. `subject`: see `Sign`."""

    reason: str
    subject: str
    since: float


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """An object with a name of this quorum and another owner: never used, and not changed unless it is adopted."""

    kind: str
    name: str
    owners: str
    """Kind and name of its owners; empty if there are none."""
    uid: str = ""
    resource_version: str = ""
    cluster_id: str | None = None
    """Cluster id of an identity, or of a StatefulSet's process."""
    given_away: bool = False
    """Whether it has owners and none is a MetadataQuorum: another client has given it to them."""
    created_for: str | None = None
    """UID of the MetadataQuorum that a StatefulSet was created for, from its immutable claim template."""


@dataclass(frozen=True, slots=True)
class LabelDrift:
    """An object with edited labels; `labels`: the correct values of those that are wrong. `shared`: it has other owners."""

    kind: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...]
    shared: bool = False


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


@dataclass(frozen=True, slots=True)
class Templates:
    """Hashes of the desired StatefulSet of an incarnation (computed by `desired/`)."""

    template_hash: str
    restart_hash: str
