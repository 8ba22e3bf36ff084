"""The observed state of a quorum's certificates: the input of `rotation.py`.

Plain facts, independent of how they were read. Certificates are identified by fingerprint. Times are seconds since
1970 by the API server's clock.
"""

from dataclasses import dataclass, field
from typing import Any

from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.named import Named
from quorum_operator.certificates.pem import Read
from quorum_operator.planner.certificates_seen import Trouble


@dataclass(frozen=True, slots=True)
class AuthoritySecret:
    """The Secret of one generation of the quorum's authority. Its stages are annotations that the operator sets once.

    `certificate`: None if it can't be used (`problem` has the reason).
    """

    generation: int
    certificate: Read | None
    version: str
    problem: str = ""
    signing: bool = False
    """All members trust it: it signs certificates until a newer authority does."""
    retired: bool = False
    """It is no longer trusted, because none of its certificates is in use."""
    signed_until: float = 0.0
    """All certificates that it signed have expired by this time."""
    given: bool = False
    """Whether it was copied from the user's Secret."""
    made_at: float = float("inf")
    """Creation time of the Secret; infinite if unknown."""
    requested: int = 0
    """The user's rotation request that it fulfils; 0 for none."""


@dataclass(frozen=True, slots=True)
class LeafSecret:
    """The Secret of a holder. `certificate`: None without a usable key pair (`problem` has the reason)."""

    holder: str
    certificate: Read | None
    bundle: tuple[Read, ...]
    version: str
    problem: str = ""
    extras: frozenset[str] = frozenset()
    """Certificates of the bundle that come from spec.tls.trustedCAs."""
    above: tuple[Read, ...] = ()
    """Intermediate certificates in the Secret."""
    revoked: str | None = None
    """The file of revoked certificates in the Secret; None if it has none."""
    due_at: float | None = None
    """When its certificate is to be renewed, also after it has expired; None without a certificate for this holder."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a member's process reports: fingerprints of its certificate, of its issuer, and of its trusted
    authorities.
    """

    certificate: str
    authority: str
    bundle: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """A member. `running`: its process may be running. `loaded` is None if a running process can't be queried."""

    holder: Holder
    running: bool
    loaded: Loaded | None = None
    leader: bool = False
    stopped: bool = False
    """Its kubelet reports that the container does not run."""
    voter_down: bool = False
    """It is a voter that does not fetch from the leader."""


@dataclass(frozen=True, slots=True)
class Issued:
    """State of one holder's certificate. `chain`: empty without a usable key pair; `anchor`: fingerprint of the
    trusted authority of the chain.
    """

    holder: str
    request: dict[str, Any]
    """The wanted object."""
    version: str
    """Resource version of the existing object; empty if there is none."""
    is_as_wanted: bool
    chain: tuple[Read, ...] = ()
    anchor: str = ""
    waits: str = ""
    """What it waits for; empty if nothing is missing."""
    trouble: Trouble | None = None
    is_readable: bool = True
    """Whether the API server answers with the object, or that there is none."""


@dataclass(frozen=True, slots=True)
class Seen:
    """All facts of one moment."""

    now: float
    authorities: tuple[AuthoritySecret, ...] = ()
    trust: tuple[Read, ...] | None = None
    """Contents of the trust ConfigMap; None if it does not exist."""
    trust_version: str = ""
    leaves: tuple[LeafSecret, ...] = ()
    members: tuple[MemberSeen, ...] = ()
    others: tuple[Holder, ...] = ()
    """Holders that are not members, such as brokers and administrators."""
    unaware: tuple[str, ...] = ()
    """Brokers that have not started since the newest authority was published, so they may not trust it yet."""
    lagging: tuple[str, ...] = ()
    """Brokers that may still present a certificate of an authority older than the signing one."""
    confirmed: bool = False
    """A user has confirmed that brokers need not be waited for."""
    named: Named = field(default_factory=Named)
    """The user's authorities that the spec names."""
    revoked: str | None = None
    """The wanted file of revoked certificates for members; None if the spec has no `revoked`."""
    issued: tuple[Issued, ...] | None = None
    """Certificates of an external issuer; None if the operator signs."""
    rotation_requested: int = 0
    """The user's open request for a new authority; 0 for none."""
    names_taken: frozenset[int] = field(default_factory=frozenset)
    """Generations whose Secret name is used by another object."""
