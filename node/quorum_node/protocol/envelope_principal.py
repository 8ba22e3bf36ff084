"""The principal in an Envelope, as Kafka's default principal builder writes it (KIP-590).

Owns the bytes: a version (int16) and the message of that version. Must not know authorization.
"""

from quorum_node.schema.codec import decode, encode
from quorum_node.schema.primitives import INT16, Buffer, MalformedRecord, read_struct
from quorum_node.schema.schema import (
    BOOL,
    STRING,
    MalformedMessage,
    Message,
    message,
    wire,
)

_VERSION = 0


@message(flexible_since=0)
class DefaultPrincipal(Message):
    """`type` is `User`, except with a custom principal builder."""

    type: str = wire(STRING)
    name: str = wire(STRING)
    token_authenticated: bool = wire(BOOL)


def encode_principal(principal: DefaultPrincipal) -> bytes:
    """The bytes for an Envelope."""
    return INT16.pack(_VERSION) + encode(principal, _VERSION)


def decode_principal(data: Buffer) -> DefaultPrincipal:
    """The principal. Raises MalformedMessage only."""
    try:
        version, position = read_struct(INT16, data, 0)
    except MalformedRecord as error:
        raise MalformedMessage(f"principal: {error}") from None
    if version < _VERSION:
        raise MalformedMessage(f"principal of version {version}")
    return decode(DefaultPrincipal, _VERSION, data, position)
