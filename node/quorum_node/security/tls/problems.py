"""Problems of certificates and keys. PURE."""

from enum import Enum


class ProblemKind(Enum):
    """For conditions, events and metrics."""

    MISSING = "Missing"
    HALF_WRITTEN = "HalfWritten"
    MALFORMED = "Malformed"
    NO_KEY = "NoKey"
    WRONG_PASSWORD = "WrongPassword"
    WEAK_KEY = "WeakKey"
    KEY_DOES_NOT_MATCH = "KeyDoesNotMatch"
    EXPIRED = "Expired"
    NOT_YET_VALID = "NotYetValid"
    WRONG_USAGE = "WrongUsage"
    BROKEN_CHAIN = "BrokenChain"
    UNTRUSTED = "Untrusted"
    REVOKED = "Revoked"
    WRONG_HOST = "WrongHost"
    WRONG_IDENTITY = "WrongIdentity"


class CertificateProblem(ValueError):
    """`what`: the file, key or peer. The message contains no part of a key.

    `clock`: additional text about the time of the check; it is ignored when problems are compared.
    """

    def __init__(self, kind: ProblemKind, what: str, why: str, clock: str = "") -> None:
        super().__init__(f"{what} {why}{clock}")
        self.kind = kind
        self.what = what
        self.why = why

    def is_same(self, other: "CertificateProblem | None") -> bool:
        """Whether it is the same problem."""
        if other is None:
            return False
        return (self.kind, self.what, self.why) == (other.kind, other.what, other.why)
