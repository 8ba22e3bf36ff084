"""SASL/SCRAM login on a connection of the admin client.

Owns the order (KIP-152): SaslHandshake, then SaslAuthenticate until both sides have proved that they know the
password. Must not know sockets.
"""

import secrets
from collections.abc import Callable

from quorum_node.client.errors import AuthenticationFailed
from quorum_node.client_sasl import ClientSasl
from quorum_node.protocol.api import Api
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from quorum_node.schema.schema import Message
from quorum_node.security.scram.client_exchange import ClientExchange, ServerRefused

Ask = Callable[[Api, int, Message], Message]
"""Sends one request and returns its response; raises OSError."""


def log_in(sasl: ClientSasl, ask: Ask) -> None:
    """Log in. Raises AuthenticationFailed, and the exceptions of `ask`."""
    name = sasl.mechanism.sasl_name
    shaken = ask(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=name))
    assert isinstance(shaken, SaslHandshakeResponse)
    if shaken.error_code:
        there = ", ".join(shaken.mechanisms) or "no mechanism at all"
        raise AuthenticationFailed(f"the listener does not support {name}; it supports {there}")
    exchange = ClientExchange(sasl.mechanism, sasl.user, sasl.password, secrets.token_urlsafe(24))
    try:
        last = exchange.last(_token(ask, exchange.first))
        last.check(_token(ask, last.message))
    except ServerRefused as refused:
        raise AuthenticationFailed(f"{refused}. Check that this is the intended server") from None


def _token(ask: Ask, data: bytes) -> bytes:
    answer = ask(SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=data))
    assert isinstance(answer, SaslAuthenticateResponse)
    if answer.error_code:
        code = answer.error_code
        name = ErrorCode(code).name if code in set(ErrorCode) else str(code)
        raise AuthenticationFailed(f"{name}: {answer.error_message or 'the login has failed'}")
    return bytes(answer.auth_bytes)
