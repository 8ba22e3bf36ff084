"""State of a connection before its client has logged in: permitted requests and their responses. PURE.

Owns the order of Kafka's SASL (KIP-43, KIP-152): ApiVersions at any time, SaslHandshake once, then
SaslAuthenticate until the exchange ends. Any other request ends the connection without being
processed. Must not know sockets; `exchange.py` decides whether a login succeeds. The server limits
the lifetime of a session, and delays failures by `connection.failed.authentication.delay.ms`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from quorum_node.schema.schema import Message
from quorum_node.security.scram.credential import Decoy
from quorum_node.security.scram.exchange import (
    Challenge,
    Lookup,
    ScramRefused,
    challenge,
    verdict,
)
from quorum_node.security.scram.mechanism import MECHANISMS, ScramMechanism

_FIRST_VERSION_WITH_HEADERS = 1


@dataclass(frozen=True, slots=True)
class Credentials:
    """Inputs of a session: stored credentials, those made up for unknown users, and a new nonce each time."""

    lookup: Lookup
    decoy: Decoy
    fresh_nonce: Callable[[], str]


@dataclass(frozen=True, slots=True)
class SaslSession:
    """State of a connection. `mechanisms`: those of the listener."""

    mechanisms: tuple[ScramMechanism, ...]
    chosen: ScramMechanism | None = None
    given: Challenge | None = None

    def passes(self, body: Message | None) -> bool:
        """Whether a request is answered regardless of the session:

        ApiVersions. None: its version is too new to read.
        """
        return self.chosen is None and (body is None or isinstance(body, ApiVersionsRequest))


@dataclass(frozen=True, slots=True)
class Continues:
    """Send the response, and wait for the next request."""

    session: SaslSession
    answer: Message


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """Send the response, and serve the client from now on: `User:` and this name."""

    user: str
    answer: Message


@dataclass(frozen=True, slots=True)
class Ended:
    """Send the response, if there is one, and close the connection. `reason` is for the log only."""

    reason: str
    answer: Message | None = None


def step(
    session: SaslSession, version: int, body: Message | None, credentials: Credentials
) -> Continues | LoggedIn | Ended:
    """The result of a request that `SaslSession.passes` did not accept. `version`: of the request."""
    if isinstance(body, SaslHandshakeRequest):
        return _handshake(session, version, body)
    if isinstance(body, SaslAuthenticateRequest):
        return _authenticate(session, body, credentials)
    return Ended(f"{type(body).__name__} came before the client had logged in")


def _handshake(session: SaslSession, version: int, body: SaslHandshakeRequest) -> Continues | Ended:
    names = tuple(each.sasl_name for each in session.mechanisms)
    if session.chosen is not None or version < _FIRST_VERSION_WITH_HEADERS:
        reason = "a second SaslHandshake"
        if session.chosen is None:
            reason = "SaslHandshake of version 0, after which tokens come without a header"
        error = ErrorCode.ILLEGAL_SASL_STATE
        return Ended(reason, SaslHandshakeResponse(error_code=error, mechanisms=names))
    chosen = MECHANISMS.get(body.mechanism)
    if chosen not in session.mechanisms:
        error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = SaslHandshakeResponse(error_code=error, mechanisms=names)
        return Ended(f"the listener does not have the mechanism {body.mechanism[:50]!r}", answer)
    answer = SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=names)
    return Continues(replace(session, chosen=chosen), answer)


def _authenticate(
    session: SaslSession, body: SaslAuthenticateRequest, credentials: Credentials
) -> Continues | LoggedIn | Ended:
    if session.chosen is None:
        text = "SaslAuthenticate has to follow SaslHandshake"
        return Ended(text, _failed(ErrorCode.ILLEGAL_SASL_STATE, text))
    message = bytes(body.auth_bytes)
    try:
        if session.given is not None:
            found = verdict(session.given, message)
            return LoggedIn(found.user, _token(found.answer))
        given = challenge(
            session.chosen,
            message,
            credentials.lookup,
            credentials.decoy,
            credentials.fresh_nonce(),
        )
    except ScramRefused as refused:
        return Ended(refused.reason, _failed(ErrorCode.SASL_AUTHENTICATION_FAILED, refused.told))
    return Continues(replace(session, given=given), _token(given.answer))


def _token(data: bytes) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.NONE, auth_bytes=data)


def _failed(error: ErrorCode, text: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error, error_message=text)
