"""Shared parts of the wire modules: partitions, and the parts of an answer that concern all partitions.

Kafka's core RPCs are batches over topics and partitions; the core handles one partition. A request is split into one request per
partition, and the answers are joined in the same order, so that a process can host several quorums (K595-31). Does not depend on RPCs.
"""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from quorum_node.protocol.elections import LeaderEndpoint, NodeEndpoint
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.server.wire.errors import draft_field, raft_error, wire_error

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID(int=1)
UNKNOWN_TOPIC = ""


class PartitionKey(NamedTuple):
    """A quorum partition."""

    topic: str
    number: int


METADATA_PARTITION = PartitionKey(METADATA_TOPIC, 0)


def metadata_partition(number: int) -> PartitionKey:
    """A partition of the metadata topic."""
    return PartitionKey(METADATA_TOPIC, number)


Split = list[tuple[PartitionKey, raft.Request]]
Answer = raft.Response | ErrorCode
"""An answer of a replica, or the ErrorCode of a partition that is not hosted here."""

NO_LEADER = raft.CurrentLeader(raft.NO_LEADER, -1)


def top_level_error(answers: Sequence[Answer]) -> ErrorCode:
    """The error for the whole request: INCONSISTENT_CLUSTER_ID if every partition reports a wrong cluster id, else NONE."""
    for answer in answers:
        if isinstance(answer, ErrorCode) or answer.error is not RaftError.INVALID_CLUSTER_ID:
            return ErrorCode.NONE
    return ErrorCode.INCONSISTENT_CLUSTER_ID if answers else ErrorCode.NONE


def leader_endpoints(answers: Sequence[Answer]) -> list[tuple[int, Endpoint]]:
    """(leader id, endpoint) of every leader in the answers, without duplicates."""
    found: dict[int, Endpoint] = {}
    for answer in answers:
        if not isinstance(answer, ErrorCode):
            leader = answer.leader
            if leader.leader_id >= 0 and leader.endpoint is not None:
                found[leader.leader_id] = leader.endpoint
    return list(found.items())


def node_endpoints(answers: Sequence[Answer]) -> tuple[NodeEndpoint, ...]:
    """The `leader_endpoints` as a field of an answer."""
    return tuple(
        NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)
        for leader_id, endpoint in leader_endpoints(answers)
    )


def error_and_leader(answer: Answer) -> tuple[ErrorCode, raft.CurrentLeader]:
    """The error and the leader in an answer about one partition."""
    if isinstance(answer, ErrorCode):
        return answer, NO_LEADER
    return wire_error(answer.error), answer.leader


def draft_error_of(answer: Answer) -> int:
    """The value of the private error field of an answer."""
    return 0 if isinstance(answer, ErrorCode) else draft_field(answer.error)


def missing_answer(top_level_code: int) -> RaftError:
    """The outcome for a partition that is missing in an answer with this top-level error."""
    # An answer without the partition and without an error is invalid.
    return raft_error(top_level_code) if top_level_code else RaftError.INVALID_REQUEST


def named_leader(
    leader_id: int,
    leader_epoch: int,
    endpoints: Sequence[NodeEndpoint],
    recovered_epoch: int = -1,
) -> raft.CurrentLeader:
    """The leader that an answer names, with its endpoint if there is one."""
    for each in endpoints:
        if each.node_id == leader_id:
            endpoint = Endpoint(CONTROLLER, each.host, each.port)
            return raft.CurrentLeader(leader_id, leader_epoch, endpoint, recovered_epoch)
    return raft.CurrentLeader(leader_id, leader_epoch, None, recovered_epoch)


def addressee(voter_id: int, directory_id: UUID | None) -> ReplicaKey | None:
    """The replica that a request is meant for; None if the version has no such field."""
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def leader_endpoint(endpoints: Sequence[LeaderEndpoint]) -> Endpoint | None:
    """The controller endpoint in a new leader's announcement; else its first endpoint, or None."""
    named = [e for e in endpoints if e.name.upper() == CONTROLLER] or endpoints
    return Endpoint(named[0].name, named[0].host, named[0].port) if named else None


def own_endpoints(endpoint: Endpoint | None) -> tuple[LeaderEndpoint, ...]:
    """The reverse of `leader_endpoint`."""
    if endpoint is None:
        return ()
    return (LeaderEndpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port),)
