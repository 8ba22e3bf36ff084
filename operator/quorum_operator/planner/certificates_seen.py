"""Facts about the certificates of a quorum, from its processes and from the certificate manager."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoadedCertificates:
    """What a process reports: fingerprints (SHA-256 of the DER, in hex) of its certificate, its issuer and all
    trusted authorities.
    """

    certificate: str
    authority: str
    bundle: frozenset[str]
    problem: str = ""
    """Why it does not use its current files."""
    clear_text: frozenset[str] = frozenset()
    """Addresses of clients that use clear text now or used it recently, while both are accepted."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A user's object can't be used: the reason, and a message with what to do."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CertificatesSeen:
    """The certificate state of a quorum."""

    usable: bool
    """Whether each member has a usable certificate."""
    waits: str = ""
    """What the next step waits for; empty if there is none."""
    trust_pending: bool = False
    """Whether two authorities are in use during a rotation."""
    brokers: tuple[str, ...] = ()
    """Brokers that have to be restarted for it."""
    refused: str = ""
    """Errors of the API server."""
    problems: tuple[str, ...] = ()
    """Problems of Secrets."""
    troubles: tuple[Trouble, ...] = ()
    """Problems of the user's objects."""
    by_others: bool = False
    """Whether an external issuer issues the certificates."""
    authority: int | None = None
    """The generation that signs."""
    without_revoked: frozenset[str] = frozenset()
    """Members whose Secret lacks the file of revoked certificates, without which a process does not start."""
    renewal_at: float | None = None
    """Time at which the next certificate is renewed (seconds since 1970). It is in the past while a renewal is overdue. None
    if no holder has a certificate.
    """
