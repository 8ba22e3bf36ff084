"""Refuses requests for authentication on listeners without authentication.

Owns the answers for SASL and delegation tokens. They equal those of a stock controller with a PLAINTEXT listener and without a secret key
for tokens. Every node answers, whether it is the leader or not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quorum_node.controller.view import Caller
from quorum_node.protocol.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from quorum_node.schema.schema import Message

_ANONYMOUS = "User:ANONYMOUS"
_NO_SASL = ErrorCode.ILLEGAL_SASL_STATE


@dataclass(frozen=True, slots=True)
class _NoToken:
    """A refusal of a request for tokens: the error code, and the value of the time fields."""

    error: ErrorCode
    timestamp_ms: int


_NOT_HERE = _NoToken(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, -1)
"""For a direct request: the caller is not authenticated."""
_NOWHERE = _NoToken(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0)
"""For a forwarded request: the caller may be authenticated by the broker."""


def refuses(body: Message | None) -> bool:
    """Whether the request belongs to one of these APIs."""
    return type(body) in _REFUSALS


def refuse(body: Message, caller: Caller, *, forwarded: bool) -> Message:
    """The refusal of a request. `forwarded`: whether a broker has forwarded it."""
    return _REFUSALS[type(body)](body, caller, _NOWHERE if forwarded else _NOT_HERE)


def _handshake(body: SaslHandshakeRequest, caller: Caller, why: _NoToken) -> Message:
    return SaslHandshakeResponse(error_code=_NO_SASL)


def _authenticate(body: SaslAuthenticateRequest, caller: Caller, why: _NoToken) -> Message:
    return SaslAuthenticateResponse(error_code=_NO_SASL, error_message="this listener has no SASL")


def _create_token(body: CreateDelegationTokenRequest, caller: Caller, why: _NoToken) -> Message:
    owner = requester = _parts(caller.principal)
    if body.owner_principal_name:
        if body.owner_principal_type is None:  # stock Kafka fails with an exception here
            why = _NoToken(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
            owner = requester = _parts(_ANONYMOUS)
        else:
            owner = body.owner_principal_type, body.owner_principal_name
    return CreateDelegationTokenResponse(
        error_code=why.error,
        principal_type=owner[0],
        principal_name=owner[1],
        token_requester_principal_type=requester[0],
        token_requester_principal_name=requester[1],
        issue_timestamp_ms=why.timestamp_ms,
        expiry_timestamp_ms=why.timestamp_ms,
        max_timestamp_ms=why.timestamp_ms,
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _renew_token(body: RenewDelegationTokenRequest, caller: Caller, why: _NoToken) -> Message:
    return RenewDelegationTokenResponse(error_code=why.error, expiry_timestamp_ms=why.timestamp_ms)


def _expire_token(body: ExpireDelegationTokenRequest, caller: Caller, why: _NoToken) -> Message:
    return ExpireDelegationTokenResponse(error_code=why.error, expiry_timestamp_ms=why.timestamp_ms)


def _describe_token(body: DescribeDelegationTokenRequest, caller: Caller, why: _NoToken) -> Message:
    """The refusal of DescribeDelegationToken. A stock controller announces and refuses it as well: brokers serve it from their image."""
    return DescribeDelegationTokenResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


_REFUSALS: dict[type[Message], Callable[[Any, Caller, _NoToken], Message]] = {
    SaslHandshakeRequest: _handshake,
    SaslAuthenticateRequest: _authenticate,
    CreateDelegationTokenRequest: _create_token,
    RenewDelegationTokenRequest: _renew_token,
    ExpireDelegationTokenRequest: _expire_token,
    DescribeDelegationTokenRequest: _describe_token,
}
