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
    """`what`: the file, key or peer that it is about. Nothing of a key is ever in the message."""

    def __init__(self, kind: ProblemKind, what: str, why: str) -> None:
        super().__init__(f"{what} {why}")
        self.kind = kind
        self.what = what
