"""Authorization of HTTP requests, decided from the headers, before the body is read.

With an authorizer every route needs the right that `security/rights/http_table.py` names; the holder of the admin token has every right.
Without an authorizer reads are open. Other requests need the admin token, if the node has one, or an administrator's certificate. If the
node has no token, they are served to callers on the same host only, and not to web pages in a browser there.
"""

import hmac
import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from quorum_node.api import ErrorCode
from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller, token_holder
from quorum_node.security.certificate_identity import Role
from quorum_node.security.rights.api_table import DESCRIBE
from quorum_node.security.rights.request_authorizer import Denial
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.listener.port import CALLER
from quorum_node.server.rights.port import Guard

MAX_BODY_BYTES = 16 << 20
"""For changes."""
MAX_READ_BODY_BYTES = 512 << 10
"""For requests that only read. A body is parsed at once, which takes up to a second a MiB: a reader must not hold up elections."""
_WHO = "the request is not authenticated: show a client certificate, or send 'Authorization: Bearer <token>'"
_EXPOSED = (
    "the token was sent in clear text, where others can read it, so it is refused: configure admin.listener=https://…,"
    " send the token there and replace it by a new one, or set admin.token.in.clear.text=true"
)
_FROM_A_PAGE = (
    "this node has no admin token, so it accepts no changes from browsers, where any web page could send them (header Origin): set"
    " admin.token.file on every node, or use quorumctl"
)
_SCHEME = "bearer"
_READING = ("GET", "HEAD")
_SHARES_TIME = frozenset({Role.READER, Role.BROKER})
_ADMINISTRATORS = frozenset({Role.ADMIN, Role.OPERATOR})


def is_authorized(headers: Headers, tokens: Sequence[str]) -> bool:
    """Whether the request carries one of the tokens; False if the node has none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() != _SCHEME:
        return False
    shown = given.strip().encode()
    return any(hmac.compare_digest(shown, token.encode()) for token in tokens)


def caller_of(scope: Scope, headers: Headers, tokens: Sequence[str]) -> Caller:
    """The caller: the holder of the token, else the principal that the connection has authenticated, else the anonymous caller."""
    client = scope.get("client")
    host = client[0] if client is not None else ""
    if is_authorized(headers, tokens):
        return token_holder(host, ADMIN_LISTENER)
    proved = scope.get(CALLER)
    return proved if proved is not None else Caller(ANONYMOUS_PRINCIPAL, host, ADMIN_LISTENER)


def exposed_token(scope: Scope, headers: Headers) -> ApiProblem | None:
    """Where tokens need TLS: the refusal of a token that another host sent in clear text, valid or not; None if there is nothing to refuse."""
    if scope["scheme"] == "https" or _is_local(scope):
        return None
    if headers.get("authorization", "").partition(" ")[0].lower() != _SCHEME:
        return None
    return ApiProblem(401, ErrorCode.UNAUTHORIZED, _EXPOSED)


def refusal_by_authorizer(
    guard: Guard, scope: Scope, headers: Headers, caller: Caller
) -> ApiProblem | None:
    """The refusal of a request by the configured authorizer; None if the request is allowed."""
    found = guard.route(caller, scope["method"], scope["path"])
    if found is None:
        return ApiProblem(
            404, ErrorCode.NOT_FOUND, "there is no such route, or not with this method"
        )
    if isinstance(found, Denial):
        if caller.principal == ANONYMOUS_PRINCIPAL and caller.identity is None:
            return ApiProblem(401, ErrorCode.UNAUTHORIZED, _WHO)
        return ApiProblem(403, ErrorCode.UNAUTHORIZED, found.text)
    reads = DESCRIBE in found.rule.needs
    return _body_refusal(headers, MAX_READ_BODY_BYTES if reads else MAX_BODY_BYTES)


def refusal_without_authorizer(
    scope: Scope, headers: Headers, tokens: Sequence[str], caller: Caller
) -> ApiProblem | None:
    """The refusal of a request on a node without an authorizer; None if the request is allowed."""
    if scope["method"] in _READING or _is_administrator(caller):
        return _body_refusal(headers)
    if tokens:
        return ApiProblem(
            401,
            ErrorCode.UNAUTHORIZED,
            "this call needs the admin token: send 'Authorization: Bearer <token>'",
        )
    if not _is_local(scope):
        return ApiProblem(
            403,
            ErrorCode.UNAUTHORIZED,
            "this node has no admin token, so it accepts changes from its own host only: set"
            " admin.token.file on every node, and send 'Authorization: Bearer <token>'",
        )
    if "origin" in headers:
        return ApiProblem(403, ErrorCode.UNAUTHORIZED, _FROM_A_PAGE)
    return _body_refusal(headers)


def has_time(caller: Caller) -> bool:
    """Whether the caller's requests are served outside of the limited share of the loop's time. Callers that may only read descriptions are
    limited.
    """
    return caller.identity is not None and caller.identity.role not in _SHARES_TIME


def _is_administrator(caller: Caller) -> bool:
    """Whether the caller is an administrator, by the token or by a certificate."""
    return caller.identity is not None and caller.identity.role in _ADMINISTRATORS


def _body_refusal(headers: Headers, max_bytes: int = MAX_BODY_BYTES) -> ApiProblem | None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > max_bytes:
        text = f"the body may have at most {max_bytes} bytes"
        return ApiProblem(413, ErrorCode.TOO_LARGE, text)
    if "transfer-encoding" in headers:
        text = "send a body with a content-length"
        return ApiProblem(411, ErrorCode.INVALID_REQUEST, text)
    return None


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False
