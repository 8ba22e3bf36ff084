"""What can be wrong with certificates and keys, each in one sentence. PURE."""

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
    """`what`: the file, key or peer that it is about. Nothing of a key is ever in the message.

    `clock`: what else is said, of the moment of the look; a later look finds the same problem at another moment.
    """

    def __init__(self, kind: ProblemKind, what: str, why: str, clock: str = "") -> None:
        super().__init__(f"{what} {why}{clock}")
        self.kind = kind
        self.what = what
        self.why = why

    def is_same(self, other: "CertificateProblem | None") -> bool:
        """Whether there is nothing new in it."""
        if other is None:
            return False
        return (self.kind, self.what, self.why) == (other.kind, other.what, other.why)
