"""What is seen of the certificates of one quorum: the input of `rotation.py`. Plain facts; who gathered them is not known here.

Certificates are named by their fingerprints. Times are seconds since 1970, by the API server's clock.
"""

from dataclasses import dataclass, field
from typing import Any

from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.named import Named
from quorum_operator.certificates.pem import Read
from quorum_operator.planner.certificates_seen import Trouble


@dataclass(frozen=True, slots=True)
class AuthoritySecret:
    """The Secret of one generation of the quorum's authority. Its stages are annotations, each set once and never taken back.

    `certificate`: None if it can't be used (`problem` says why): its key is lost.
    """

    generation: int
    certificate: Read | None
    version: str
    problem: str = ""
    signing: bool = False
    """All members trust it: certificates are signed by it, until a newer one is signing."""
    retired: bool = False
    """Nobody presents a certificate of it any more: it is trusted no longer."""
    signed_until: float = 0.0
    """No certificate that it has signed ends later."""
    given: bool = False
    """A copy of what the Secret that the spec names held."""
    made_at: float = float("inf")
    """When the Secret was made; infinite where that is not known."""


@dataclass(frozen=True, slots=True)
class LeafSecret:
    """The Secret of a holder. `certificate`: None without a pair that can be used; `problem` says why."""

    holder: str
    certificate: Read | None
    bundle: tuple[Read, ...]
    version: str
    problem: str = ""
    extras: frozenset[str] = frozenset()
    """Which of the bundle are no authorities of this quorum: the spec has named them."""
    above: tuple[Read, ...] = ()
    """Who issued the certificate, as far as the Secret has them."""
    revoked: str | None = None
    """The file of revoked certificates, as it is."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the process of a member says it uses: fingerprint of its certificate, that of who signed it, and what it trusts."""

    certificate: str
    authority: str
    bundle: tuple[Read, ...]


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """A member. `running`: a process of it may be alive; one that is alive and can't be asked says nothing (`loaded`)."""

    holder: Holder
    running: bool
    loaded: Loaded | None = None
    leader: bool = False
    stopped: bool = False
    """Its container does not run at this moment, by its kubelet."""
    voter_down: bool = False
    """It is a voter, and the leader does not hear it."""


@dataclass(frozen=True, slots=True)
class Issued:
    """How far the certificate of one holder is. `chain`: empty without a pair that can be used; `anchor`: fingerprint of the trusted
    authority that it leads to."""

    holder: str
    request: dict[str, Any]
    """As it is to be."""
    version: str
    """Of the one that is there; empty without one."""
    is_as_wanted: bool
    chain: tuple[Read, ...] = ()
    anchor: str = ""
    waits: str = ""
    """What is missing; empty if nothing is."""
    trouble: Trouble | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything at one moment."""

    now: float
    authorities: tuple[AuthoritySecret, ...] = ()
    trust: tuple[Read, ...] | None = None
    """What the trust ConfigMap holds; None without one."""
    trust_version: str = ""
    leaves: tuple[LeafSecret, ...] = ()
    members: tuple[MemberSeen, ...] = ()
    others: tuple[Holder, ...] = ()
    """Holders that are no members: brokers, administrators."""
    unaware: tuple[str, ...] = ()
    """Brokers that have not started since the newest authority was published: they may not trust it yet."""
    lagging: tuple[str, ...] = ()
    """Brokers that may still present a certificate of an older authority than the one that is signing."""
    confirmed: bool = False
    """A person says that what is unaware or lagging need not be waited for."""
    named: Named = field(default_factory=Named)
    """What the spec names of other people's."""
    revoked: str | None = None
    """The file of revoked certificates, as members are to have it; None: the spec says nothing."""
    issued: tuple[Issued, ...] | None = None
    """What somebody else issues; None where the operator signs."""
    rotation_asked: bool = False
    """A person asks for another authority."""
    names_taken: frozenset[int] = field(default_factory=frozenset)
    """Generations whose Secret's name is used by something else."""
