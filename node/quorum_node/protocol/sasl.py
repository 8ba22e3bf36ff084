"""SaslHandshake and SaslAuthenticate, as shipped (KIP-43, KIP-152, KIP-368)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import BYTES, INT16, INT64, STRING, Array, Message, message, wire


@message()
class SaslHandshakeRequest(Message):
    """The mechanism that the client wants to use."""

    mechanism: str = wire(STRING)


@message()
class SaslHandshakeResponse(Message):
    """The mechanisms of the listener."""

    error_code: int = wire(INT16)
    mechanisms: tuple[str, ...] = wire(Array(STRING), default=())


@message(flexible_since=2)
class SaslAuthenticateRequest(Message):
    """One step of a mechanism."""

    auth_bytes: bytes = wire(BYTES, secret=True)


@message(flexible_since=2)
class SaslAuthenticateResponse(Message):
    """The server's step of a mechanism."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    auth_bytes: bytes = wire(BYTES, default=b"", secret=True)
    session_lifetime_ms: int = wire(INT64, since=1, default=0, ignorable=True)


SASL_HANDSHAKE = Api(17, SaslHandshakeRequest, SaslHandshakeResponse, 0, 1)
SASL_AUTHENTICATE = Api(36, SaslAuthenticateRequest, SaslAuthenticateResponse, 0, 2)
