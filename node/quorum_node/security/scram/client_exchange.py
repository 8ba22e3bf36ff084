"""The client's side of SCRAM: two messages, and the verification of the server. PURE.

Source: RFC 5802, sections 3 and 5, as Kafka implements it: no channel binding, and the password in
plain UTF-8.
"""

import base64
import hmac
from dataclasses import dataclass, field

from quorum_node.security.scram.mechanism import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism
from quorum_node.security.scram.messages import is_nonce

_HEADER = "n,,"


class ServerRefused(ValueError):
    """The server could not prove that it knows the password. The message contains no secret."""


@dataclass(frozen=True, slots=True)
class ClientExchange:
    """`nonce`: new for every exchange, 128 random bits as printable text."""

    mechanism: ScramMechanism
    user: str
    password: str = field(repr=False)
    nonce: str

    @property
    def first(self) -> bytes:
        """The first message."""
        return (_HEADER + self._bare).encode()

    def last(self, challenge: bytes) -> "ClientLast":
        """The response to the server's challenge. Raises ServerRefused."""
        nonce, salt, iterations = self._read(challenge)
        mechanism = self.mechanism
        salted = mechanism.salted_password(self.password, salt, iterations)
        client_key = mechanism.keyed(salted, b"Client Key")
        unsigned = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        signed = b",".join((self._bare.encode(), challenge, unsigned.encode()))
        signature = mechanism.keyed(mechanism.hashed(client_key), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        message = f"{unsigned},p={base64.b64encode(proof).decode()}".encode()
        return ClientLast(message, mechanism.keyed(mechanism.server_key(salted), signed))

    @property
    def _bare(self) -> str:
        return f"n={self.user.replace('=', '=3D').replace(',', '=2C')},r={self.nonce}"

    def _read(self, challenge: bytes) -> tuple[str, bytes, int]:
        """Parse the challenge.

        Iterations are limited as in Kafka, so that a server can't make a client compute for long.
        """
        try:
            fields = dict(each.split("=", 1) for each in challenge.decode("ascii").split(","))
            nonce, iterations = fields["r"], int(fields["i"])
            salt = base64.b64decode(fields["s"], validate=True)
        except (KeyError, ValueError):
            raise ServerRefused("the server's challenge can't be read") from None
        if not nonce.startswith(self.nonce) or nonce == self.nonce or not is_nonce(nonce):
            raise ServerRefused("the server's challenge belongs to another exchange")
        if not salt or not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ServerRefused(
                f"the server requires {iterations} iterations, which is outside of the permitted range"
            )
        return nonce, salt, iterations


@dataclass(frozen=True, slots=True)
class ClientLast:
    """`message`: to send. `signature`: the expected proof of the server."""

    message: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    def check(self, answer: bytes) -> None:
        """Verify the server's proof. Raises ServerRefused."""
        wanted = b"v=" + base64.b64encode(self.signature)
        if not hmac.compare_digest(answer.split(b",")[0], wanted):
            raise ServerRefused("the server does not know the password")
