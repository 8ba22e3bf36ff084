"""A client of SCRAM, by the formulas of RFC 5802.

Owns its two messages. Must not know the server's code: only what a mechanism computes is shared.
"""

import base64

from quorum_node.security.scram.mechanism import ScramMechanism

CLIENT_NONCE = "abc"


def first_message(user: str) -> bytes:
    """Without channel binding and authorization id."""
    return f"n,,{_bare(user)}".encode()


def last_message(mechanism: ScramMechanism, user: str, server: bytes, password: str) -> bytes:
    """The answer to a challenge."""
    return proof_message(mechanism, _bare(user), server, password, "n,,")


def proof_message(
    mechanism: ScramMechanism, bare: str, server: bytes, password: str, binding: str
) -> bytes:
    """The same for any first message: `binding` and `bare` are its two halves."""
    fields = dict(part.split("=", 1) for part in server.decode().split(","))
    salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
    salted = mechanism.salted_password(password, salt, iterations)
    client_key = mechanism.keyed(salted, b"Client Key")
    unsigned = f"c={base64.b64encode(binding.encode()).decode()},r={fields['r']}"
    signed = ",".join((bare, server.decode(), unsigned)).encode()
    signature = mechanism.keyed(mechanism.hashed(client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{unsigned},p={base64.b64encode(proof).decode()}".encode()


def _bare(user: str) -> str:
    return f"n={user.replace('=', '=3D').replace(',', '=2C')},r={CLIENT_NONCE}"
