"""The two steps of a server: challenge and verdict. PURE.

Owns whether a login succeeds. An unknown user gets a challenge like all others, and fails at the
same step and with the same message as a wrong password; both steps compute the same for both. Must
not know sockets, nor where credentials are stored.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field

from quorum_node.records.metadata import UserScramCredentialRecord
from quorum_node.security.scram.credential import (
    Decoy,
    ScramCredential,
    fake_credential,
    usable_credential,
)
from quorum_node.security.scram.mechanism import ScramMechanism
from quorum_node.security.scram.messages import (
    ClientFirst,
    MalformedScram,
    is_nonce,
    parse_client_final,
    parse_client_first,
    server_final,
    server_first,
)

MIN_NONCE_CHARS = 22
"""128 bits as base64. The server's part has to be new for every exchange."""
TOKEN_EXTENSION = "tokenauth"

Lookup = Callable[[ScramMechanism, str], UserScramCredentialRecord | None]


class ScramRefused(Exception):
    """The exchange has failed.

    `reason` is for the server's log; the client gets `told`, which is always the same.
    """

    def __init__(self, mechanism: ScramMechanism, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.told = (
            "Authentication failed during authentication due to invalid credentials with SASL"
            f" mechanism {mechanism.sasl_name}"
        )


@dataclass(frozen=True, slots=True)
class Challenge:
    """The server's first response, and its state until the client's last message."""

    answer: bytes
    mechanism: ScramMechanism
    user: str
    is_known: bool
    credential: ScramCredential = field(repr=False)
    first: ClientFirst
    nonce: str


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The principal is `User:` and this name."""

    answer: bytes
    user: str


def challenge(
    mechanism: ScramMechanism, message: bytes, lookup: Lookup, decoy: Decoy, server_nonce: str
) -> Challenge:
    """The response to a client's first message. Raises ScramRefused.

    Raises ValueError for a nonce that is too short: that is a bug of the caller.
    """
    if len(server_nonce) < MIN_NONCE_CHARS or not is_nonce(server_nonce):
        raise ValueError(f"a server's nonce has at least {MIN_NONCE_CHARS} printable characters")
    first = _checked_first(mechanism, message)
    made_up = fake_credential(mechanism, first.user, decoy)
    real = usable_credential(mechanism, lookup(mechanism, first.user))
    credential = made_up if real is None else real
    nonce = first.nonce + server_nonce
    answer = server_first(nonce, credential.salt, credential.iterations)
    return Challenge(
        answer.encode(), mechanism, first.user, real is not None, credential, first, nonce
    )


def verdict(given: Challenge, message: bytes) -> Authenticated:
    """The response to a client's last message. Raises ScramRefused."""
    mechanism, credential = given.mechanism, given.credential
    try:
        final = parse_client_final(message)
    except MalformedScram as error:
        raise ScramRefused(mechanism, f"the client's last message: {error}") from None
    if final.channel_binding != given.first.header.encode():
        raise ScramRefused(mechanism, "the channel binding is not the header of the first message")
    if not hmac.compare_digest(final.nonce, given.nonce):
        raise ScramRefused(
            mechanism, "the nonce of the last message is not the one of this exchange"
        )
    if len(final.proof) != mechanism.key_bytes:
        raise ScramRefused(mechanism, f"a proof has {mechanism.key_bytes} bytes")
    signed = b",".join((given.first.bare.encode(), given.answer, final.unsigned.encode()))
    signature = mechanism.keyed(credential.stored_key, signed)
    client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
    fits = hmac.compare_digest(mechanism.hashed(client_key), credential.stored_key)
    answer = server_final(mechanism.keyed(credential.server_key, signed)).encode()
    if not (fits and given.is_known):
        wrong = "wrong password" if given.is_known else "no usable credential"
        raise ScramRefused(mechanism, f"{given.user[:200]!r} for {mechanism.sasl_name}: {wrong}")
    return Authenticated(answer, given.user)


def _checked_first(mechanism: ScramMechanism, message: bytes) -> ClientFirst:
    try:
        first = parse_client_first(message)
    except MalformedScram as error:
        raise ScramRefused(mechanism, f"the client's first message: {error}") from None
    tokens = [value for name, value in first.extensions if name == TOKEN_EXTENSION]
    if any(value.lower() == "true" for value in tokens):
        raise ScramRefused(mechanism, "delegation tokens are not supported (tokenauth)")
    if first.authorization_id not in (None, first.user):
        raise ScramRefused(mechanism, "the authorization id is not the name of the user")
    return first
