"""The steps of `rotation.py`. Each is one write: a creation, or a patch conditional on the version that was read."""

from dataclasses import dataclass
from typing import Any

from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.pem import Read


@dataclass(frozen=True, slots=True)
class CreateAuthority:
    """Create an authority. `signing`: it signs at once, because it is the first one and no member has to trust it
    before. `given`: the user's authority to copy; None: generate one. `requested`: the user's request that it fulfils.
    """

    generation: int
    signing: bool
    reason: str
    given: Read | None = None
    requested: int = 0


@dataclass(frozen=True, slots=True)
class ApplyTrust:
    """Write exactly these certificates into the trust ConfigMap. `version`: the resource version that was read; empty
    creates.
    """

    bundle: tuple[Read, ...]
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExtendSignedUntil:
    """Record, before signing, until when certificates of this authority may be valid."""

    generation: int
    version: str
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class WriteLeaf:
    """Write a new key pair and a bundle for a holder at once. `version`: empty creates."""

    holder: Holder
    generation: int
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    """Certificates of the bundle that are not authorities of this quorum."""
    revoked: str | None = None
    """The file of revoked certificates; None keeps the one in the Secret."""


@dataclass(frozen=True, slots=True)
class WriteBundle:
    """Write the bundle and the revoked certificates, and keep a key pair. `version`: empty creates a Secret without one."""

    holder: Holder
    bundle: tuple[Read, ...]
    version: str
    reason: str
    extras: frozenset[str] = frozenset()
    revoked: str | None = None


@dataclass(frozen=True, slots=True)
class RequestCertificate:
    """Create or update cert-manager's Certificate for a holder. `version`: empty creates."""

    holder: str
    request: dict[str, Any]
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class CopyIssuedPair:
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
    """Let the authority sign, because all members trust it."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class Retire:
    """Stop trusting the authority, because none of its certificates is in use."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveRetiredMark:
    """Remove the mark of a retired authority that another client has set: its certificates may be in use."""

    generation: int
    version: str
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreOwner:
    """Restore the owner and the labels of exactly the object that was read; `kind`: Secret or ConfigMap."""

    kind: str
    name: str
    uid: str
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
    | ExtendSignedUntil
    | WriteLeaf
    | WriteBundle
    | RequestCertificate
    | CopyIssuedPair
    | BeginSigning
    | Retire
    | RemoveRetiredMark
    | RestoreOwner
    | WaitFor
    | Settled
)
