"""Who may call what over HTTP, decided from the headers: before a byte of the body is read.

With an authorizer every route needs its right (`security/rights/http_table.py`), which the admin token has, too.
Without one reading is open; everything else needs the admin token if the node was given one, and without a token it is
served to callers on the node's own host only. What is refused here has cost a few header lines.
"""

import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.types import Scope

from quorum_node.api import ErrorCode
from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller, token_holder
from quorum_node.security.rights.door import Denial
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.listener.port import CALLER
from quorum_node.server.rights.port import Guard

MAX_BODY_BYTES = 16 << 20
_WHO = "say who you are: show a client certificate, or send 'Authorization: Bearer <token>'"
_SCHEME = "bearer"
_READING = ("GET", "HEAD")


def is_authorized(headers: Headers, token: str | None) -> bool:
    """Whether the request carries the token; False if there is none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if token is None or scheme.lower() != _SCHEME:
        return False
    return hmac.compare_digest(given.strip().encode(), token.encode())


def caller_of(scope: Scope, headers: Headers, token: str | None) -> Caller:
    """Who asks: the holder of the token, else whoever the connection has proved, else nobody."""
    client = scope.get("client")
    host = client[0] if client is not None else ""
    if is_authorized(headers, token):
        return token_holder(host, ADMIN_LISTENER)
    proved = scope.get(CALLER)
    return proved if proved is not None else Caller(ANONYMOUS_PRINCIPAL, host, ADMIN_LISTENER)


def judged(guard: Guard, scope: Scope, headers: Headers, caller: Caller) -> ApiProblem | None:
    """With an authorizer: why the request is not served; None if it is."""
    found = guard.route(caller, scope["method"], scope["path"])
    if found is None:
        return ApiProblem(
            404, ErrorCode.NOT_FOUND, "there is no such route, or not with this method"
        )
    if isinstance(found, Denial):
        if caller.principal == ANONYMOUS_PRINCIPAL and caller.identity is None:
            return ApiProblem(401, ErrorCode.UNAUTHORIZED, _WHO)
        return ApiProblem(403, ErrorCode.UNAUTHORIZED, found.text)
    return _body_refusal(headers)


def refusal(scope: Scope, headers: Headers, token: str | None) -> ApiProblem | None:
    """Without an authorizer: why the request is not served; None if it is."""
    if scope["method"] not in _READING:
        if token is None and not _is_local(scope):
            return ApiProblem(
                403,
                ErrorCode.UNAUTHORIZED,
                "this node has no admin token, so it takes changes from its own host only: set"
                " admin.token.file on every node, and send 'Authorization: Bearer <token>'",
            )
        if token is not None and not is_authorized(headers, token):
            return ApiProblem(
                401,
                ErrorCode.UNAUTHORIZED,
                "this call needs the admin token: send 'Authorization: Bearer <token>'",
            )
    return _body_refusal(headers)


def _body_refusal(headers: Headers) -> ApiProblem | None:
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length) > MAX_BODY_BYTES:
        text = f"the body may have at most {MAX_BODY_BYTES} bytes"
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
