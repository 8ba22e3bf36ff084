"""What is told of the certificates of a quorum: by its processes, and by the operator that keeps them. Plain facts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadedCertificates:
    """What a process says it uses: fingerprints (SHA-256 of the DER, in hex) of its certificate, of who signed it, and of all
    that it trusts."""

    certificate: str
    authority: str
    bundle: frozenset[str]
    problem: str = ""
    """Why it does not use what its files hold now."""
    clear_text: frozenset[str] = frozenset()
    """Addresses that speak clear text to it, or did lately; while it takes that beside TLS."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that the spec names can't be used as it is: one word, and in words what is so and what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CertificatesSeen:
    """How far the certificates of a quorum are."""

    usable: bool
    """Each member has a certificate that can be used."""
    waits: str = ""
    """What the next step waits for; empty when none is to be done."""
    trust_pending: bool = False
    """There are two authorities: one is on its way in, or out."""
    brokers: tuple[str, ...] = ()
    """Who has to be restarted for it."""
    refused: str = ""
    """What the API server refuses."""
    problems: tuple[str, ...] = ()
    """Of Secrets that can't be used."""
    troubles: tuple[Trouble, ...] = ()
    """With what the spec names: an authority, others to trust."""
    by_others: bool = False
    """An issuer that the spec names issues them."""
    authority: int | None = None
    """The generation that signs."""
    renewal_at: float | None = None
    """When the first certificate is replaced; None while something is to be done. Seconds since 1970."""
