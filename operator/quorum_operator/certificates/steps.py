"""The steps of `rotation.py`. Each is one write: a creation, or a patch conditional on the version that was read."""

from dataclasses import dataclass
from typing import Any

from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.pem import Read


@dataclass(frozen=True, slots=True)
class CreateAuthority:
    """Create an authority. `signing`: it is the first one, so no member has to learn of it. `given`: copy the user's
    authority; None: generate one. `requested`: the user's request that it serves.
    """

    generation: int
    signing: bool
    reason: str
    given: Read | None = None
    requested: int = 0


@dataclass(frozen=True, slots=True)
class ApplyTrust:
    """The trust ConfigMap has exactly these. `version`: of what was read; empty creates."""

    bundle: tuple[Read, ...]
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class RaiseSignedUntil:
    """Record, before signing, until when certificates of this authority may be valid."""

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
    """Certificates of the bundle that are not authorities of this quorum."""
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
    """Write an issued key pair and a bundle for a holder. `version`: empty creates the Secret."""

    holder: Holder
    certificate: Read
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class BeginSigning:
    """All members trust the authority: from now on it signs."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retire:
    """No certificate of the authority is in use: it is no longer trusted."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait. `brokers`: brokers that have to be restarted."""

    reason: str
    brokers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing to do until `due_at`."""

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
