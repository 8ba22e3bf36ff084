"""The admin token: mutating calls need it if the node was given one."""

import hmac

from fastapi import Request

from quorum_node.api import ErrorCode
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.admin.problems import ApiProblem

_SCHEME = "bearer"


def require_token(node: NodeView, request: Request) -> None:
    """Raise a 401 ApiProblem unless the request carries the token."""
    if node.token is None:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != _SCHEME or not hmac.compare_digest(given.encode(), node.token.encode()):
        raise ApiProblem(
            401,
            ErrorCode.UNAUTHORIZED,
            "this call needs the admin token: send 'Authorization: Bearer <token>'",
        )
