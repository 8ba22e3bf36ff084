"""The steps of `rotation.py`: each is one write, a creation or a patch bound to the version that was read."""

from dataclasses import dataclass
from typing import Any

from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.pem import Read


@dataclass(frozen=True, slots=True)
class CreateAuthority:
    """Create-only. `signing`: it is the first, nobody has to learn of it. `given`: what the Secret that the spec names holds is
    copied; None: a new one is made."""

    generation: int
    signing: bool
    reason: str
    given: Read | None = None


@dataclass(frozen=True, slots=True)
class ApplyTrust:
    """The trust ConfigMap has exactly these. `version`: of what was read; empty creates."""

    bundle: tuple[Read, ...]
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class RaiseSignedUntil:
    """Before something is signed: so it is known how long certificates of this authority may be about."""

    generation: int
    version: str
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class WriteLeaf:
    """A new pair and a bundle for a holder, in one write. `version`: empty creates."""

    holder: Holder
    generation: int
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    """Which of the bundle are not this quorum's own."""
    revoked: str | None = None
    """The file of revoked certificates; None: what the Secret has of it stays."""


@dataclass(frozen=True, slots=True)
class WriteBundle:
    """The bundle, and who is revoked; the pair, if there is one, stays. `version`: empty creates a Secret without a pair."""

    holder: Holder
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class RequestCertificate:
    """A Certificate of cert-manager, for a holder. `version`: empty creates."""

    holder: str
    request: dict[str, Any]
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class TakePair:
    """The pair that was issued for a holder, and a bundle, in one write. `version`: empty creates."""

    holder: Holder
    certificate: Read
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class BeginSigning:
    """All trust it: from now on it signs."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retire:
    """Nobody presents what it has signed: it is forgotten."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Nothing to do until this has changed. `brokers`: who has to be restarted for it."""

    reason: str
    brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """All is as it should be, until `due_at`."""

    due_at: float


Step = (
    CreateAuthority
    | ApplyTrust
    | RaiseSignedUntil
    | WriteLeaf
    | WriteBundle
    | RequestCertificate
    | TakePair
    | BeginSigning
    | Retire
    | WaitFor
    | Settled
)
