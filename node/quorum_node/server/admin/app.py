"""The FastAPI application: registers the routes, reports errors as ErrorBody, and refuses requests before their body is read."""

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from quorum_node.api import ErrorBody, ErrorCode
from quorum_node.raft.messages import NO_LEADER
from quorum_node.server.admin import (
    alter_routes,
    config_routes,
    describe_routes,
    health_routes,
    log_routes,
    reassignment_routes,
    snapshot_routes,
    voter_routes,
)
from quorum_node.server.admin.api_document import DocumentedApp
from quorum_node.server.admin.authorization import (
    caller_of,
    exposed_token,
    has_time,
    refusal_by_authorizer,
    refusal_without_authorizer,
)
from quorum_node.server.admin.leader import leader_admin_endpoint, url_of
from quorum_node.server.admin.node_view import NodeView
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.ending.fail_stop import is_half_a_step
from quorum_node.server.listener.port import ON_AUTHORIZED
from quorum_node.server.observing.repeats import Repeats
from quorum_node.server.version import VERSION

_LOG = structlog.get_logger("quorum_node")


def create_app(node: NodeView) -> FastAPI:
    """The application of one node."""
    app = DocumentedApp(
        title="MetadataQuorum node",
        version=VERSION,
        description="Admin API of one replica of a metadata quorum.",
        docs_url=None,
        redoc_url=None,
        responses={"default": {"model": ErrorBody, "description": "Anything that is not 2xx."}},
    )
    app.state.node = node
    for routes in (
        health_routes,
        describe_routes,
        voter_routes,
        alter_routes,
        config_routes,
        log_routes,
        snapshot_routes,
        reassignment_routes,
    ):
        app.include_router(routes.router(node))

    async def on_problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, ApiProblem)
        return error_response(node, request, error.status, error.code, error.message)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return error_response(node, request, 422, ErrorCode.INVALID_REQUEST, _first_problem(error))

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = ErrorCode.NOT_FOUND if error.status_code == 404 else ErrorCode.INVALID_REQUEST
        return error_response(node, request, error.status_code, code, str(error.detail))

    bugs = Repeats()

    async def on_bug(request: Request, error: Exception) -> Response:
        path = getattr(request.scope.get("route"), "path", "a request for an unknown path")
        if bugs.is_written((path, type(error))):
            _LOG.error(f"{request.method} {path} failed: internal error", exc_info=error)
        if is_half_a_step(error):
            node.on_bug(error)
        return error_response(node, request, 500, ErrorCode.INTERNAL, f"internal error: {error!r}")

    app.add_exception_handler(ApiProblem, on_problem)
    app.add_exception_handler(Exception, on_bug)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)

    app.add_middleware(Doorkeeper, node=node)
    return app


class Doorkeeper:
    """ASGI middleware: checks a request's authorization by its headers. The body of a refused request is never read."""

    def __init__(self, app: ASGIApp, node: NodeView) -> None:
        self._app = app
        self._node = node

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        assert scope["type"] == "http"
        headers = Headers(scope=scope)
        tokens, guard = self._node.admin_tokens(), self._node.guard
        caller = caller_of(scope, headers, tokens)
        if self._node.token_needs_tls and (exposed := exposed_token(scope, headers)) is not None:
            await _plain_error(exposed)(scope, receive, send)
            return
        if guard is None or not guard.is_on:
            refused = refusal_without_authorizer(scope, headers, tokens, caller)
        else:
            refused = refusal_by_authorizer(guard, scope, headers, caller)
        if refused is None:
            on_authorized = scope.get(ON_AUTHORIZED)
            if on_authorized is not None and has_time(caller):
                on_authorized()
            await self._app(scope, receive, send)
            return
        answer = error_response(
            self._node, Request(scope), refused.status, refused.code, refused.message
        )
        if guard is not None and guard.is_on:
            # Without the leader's address: this caller may not read it.
            answer = _plain_error(refused)
        await answer(scope, receive, send)


def _plain_error(problem: ApiProblem) -> Response:
    body = ErrorBody(code=problem.code.value, message=problem.message)
    return JSONResponse(body.model_dump(mode="json", by_alias=True), problem.status)


def error_response(
    node: NodeView, request: Request, status: int, code: ErrorCode, message: str
) -> Response:
    """An ErrorBody that names the leader of the partition in question, if one is known."""
    description = _partition_in_question(node, request).describe()
    known = description.leader_id != NO_LEADER
    endpoint = leader_admin_endpoint(description) if known else None
    body = ErrorBody(
        code=code.value,
        message=message,
        leader_id=description.leader_id if known else None,
        leader_epoch=description.leader_epoch,
        leader_url=url_of(endpoint, node.scheme) if endpoint else None,
    )
    return JSONResponse(body.model_dump(mode="json", by_alias=True), status)


def _partition_in_question(node: NodeView, request: Request) -> ReplicaView:
    replicas = node.replicas()
    named = request.query_params.get("partition", "0")
    return next((each for each in replicas if str(each.partition) == named), replicas[0])


def _first_problem(error: RequestValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}"
