"""Operations that only the leader can carry out: another replica answers with the leader's id and URL.

A node never forwards such a request. The request carries the admin token, and the leader's address comes from a log record that a
peer wrote: a forwarded token could be sent to an address that an attacker chose. The caller gets 421 (RFC 9110, 15.5.20) and decides
whether to trust that address.
"""

import asyncio

from quorum_node.api import ErrorCode
from quorum_node.configuration.keys.listeners import ADMIN_LISTENER
from quorum_node.host_port import HostPort
from quorum_node.raft.description import ReplicaDescription
from quorum_node.raft.messages import NO_LEADER
from quorum_node.records.identity import Endpoint
from quorum_node.server.admin.problems import ApiProblem
from quorum_node.server.admin.replica_view import ReplicaView
from quorum_node.server.admin.views import leaderless

LEADER_WAIT_MS = 1000
"""A handover takes some milliseconds, an election some hundred. Without a majority the caller has to be told."""


def require_leader(replica: ReplicaView) -> None:
    """Raise an ApiProblem with the leader's address, unless this replica believes that it leads."""
    if not replica.is_leader():
        raise elsewhere(replica.describe(), replica.scheme)


async def await_leader(replica: ReplicaView, timeout_ms: int) -> None:
    """As `require_leader`, but wait for the end of an election or a handover first, which a write should survive.

    Not longer than LEADER_WAIT_MS, nor than the caller waits (`timeout_ms`).
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + min(timeout_ms, LEADER_WAIT_MS) / 1000
    while replica.describe().leader_id == NO_LEADER and loop.time() < end:
        await replica.next_role(end - loop.time())
    require_leader(replica)


def elsewhere(description: ReplicaDescription, scheme: str = "http") -> ApiProblem:
    """The answer of a replica that does not lead. Nothing was changed."""
    if description.leader_id == NO_LEADER:
        return ApiProblem(503, ErrorCode.NO_LEADER, f"{leaderless(description)}; try again")
    endpoint = leader_admin_endpoint(description)
    if endpoint is None:
        return _no_admin_api(description)
    text = (
        f"this node is not the leader. The leader is node {description.leader_id}; its admin API is registered at"
        f" {url_of(endpoint, scheme)}. Nothing was changed: send the request to the leader. Nodes do not forward"
        " requests, because the token would be sent to an address that is read from the log"
    )
    return ApiProblem(421, ErrorCode.NOT_LEADER, text)


def leader_admin_endpoint(description: ReplicaDescription) -> Endpoint | None:
    """The leader's admin endpoint, from the voter set."""
    for voter in reversed(description.voters):
        if voter.key.id == description.leader_id:
            return voter.endpoint(ADMIN_LISTENER)
    return None


def url_of(endpoint: Endpoint, scheme: str = "http") -> str:
    """scheme://host:port; an IPv6 address in brackets."""
    return f"{scheme}://{HostPort(endpoint.host, endpoint.port)}"


def _no_admin_api(description: ReplicaDescription) -> ApiProblem:
    known = description.leader_endpoint
    address = str(HostPort(known.host, known.port)) if known is not None else "HOST:PORT"
    text = (
        f"the leader, node {description.leader_id} at {address}, has no admin API: it is a controller"
        " of stock Kafka, or was added as a voter without its ADMIN endpoint. Nothing was changed. Use"
        f" Kafka's tools with --bootstrap-controller {address} (kafka-configs.sh to write,"
        " kafka-metadata-quorum.sh for the quorum)"
    )
    return ApiProblem(409, ErrorCode.LEADER_IS_STOCK, text)
