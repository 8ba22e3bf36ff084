"""Passing a request on to the leader's admin API, once.

A request that was forwarded already is never forwarded again: two nodes that each believe the
other leads must not play ping-pong.
"""

import httpx
from fastapi import Request, Response

from quorum_node.api import FORWARDED_HEADER, ErrorCode
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.messages import NO_LEADER
from quorum_node.records.identity import Endpoint
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.views import leaderless
from quorum_node.server.config import ADMIN_LISTENER

_PASSED_ON = ("authorization", "content-type", "accept")
_CONNECT_TIMEOUT_SECONDS = 1.0
_SLACK_SECONDS = 1.0


def leader_admin_endpoint(description: ReplicaDescription) -> Endpoint | None:
    """The leader's admin endpoint, from the voter set."""
    for voter in reversed(description.voters):
        if voter.key.id == description.leader_id:
            return voter.endpoint(ADMIN_LISTENER)
    return None


def url_of(endpoint: Endpoint) -> str:
    """http://host:port; an IPv6 address in brackets."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"http://{host}:{endpoint.port}"


def _nobody_to_ask(description: ReplicaDescription) -> ApiProblem:
    if description.leader_id == NO_LEADER:
        return ApiProblem(503, ErrorCode.NO_LEADER, f"{leaderless(description)}; try again")
    known = description.leader_endpoint
    address = f"{known.host}:{known.port}" if known is not None else "HOST:PORT"
    text = (
        f"the leader, node {description.leader_id} at {address}, has no admin API: it is a controller"
        " of stock Kafka, or was added as a voter without its ADMIN endpoint. Nothing was done. Use"
        f" Kafka's tools with --bootstrap-controller {address} (kafka-configs.sh to write,"
        " kafka-metadata-quorum.sh for the quorum)"
    )
    return ApiProblem(409, ErrorCode.LEADER_IS_STOCK, text)


class Forwarder:
    """One client for all forwarded requests."""

    def __init__(self) -> None:
        # Admin listeners speak plain HTTP; not to load the system's certificates makes a start quicker.
        self._client = httpx.AsyncClient(trust_env=False, verify=False)

    async def forward(
        self, request: Request, description: ReplicaDescription, timeout_ms: int
    ) -> Response:
        """The leader's answer. Raises ApiProblem when there is nobody to ask."""
        if FORWARDED_HEADER in request.headers:
            raise ApiProblem(
                503, ErrorCode.NOT_LEADER, "forwarded here, but this node does not lead"
            )
        endpoint = leader_admin_endpoint(description)
        if endpoint is None:
            raise _nobody_to_ask(description)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        headers[FORWARDED_HEADER] = str(description.key.id)
        url = httpx.URL(url_of(endpoint) + request.url.path, query=request.url.query.encode())
        timeout_seconds = timeout_ms / 1000 + _SLACK_SECONDS
        try:
            answer = await self._client.request(
                request.method,
                url,
                content=await request.body(),
                headers=headers,
                timeout=httpx.Timeout(timeout_seconds, connect=_CONNECT_TIMEOUT_SECONDS),
            )
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            text = f"the leader at {url_of(endpoint)} can't be reached: {error}"
            raise ApiProblem(503, ErrorCode.NO_LEADER, text) from error
        except httpx.HTTPError as error:
            text = f"the leader at {url_of(endpoint)} did not answer: {error!r}"
            raise ApiProblem(504, ErrorCode.TIMED_OUT, text) from error
        media_type = answer.headers.get("content-type")
        return Response(answer.content, answer.status_code, media_type=media_type)

    async def close(self) -> None:
        """Close idle connections."""
        await self._client.aclose()
