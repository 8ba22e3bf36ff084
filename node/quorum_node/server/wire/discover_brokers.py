"""DiscoverBrokers (KIP-595): translates between the core's messages and Kafka's.

The draft's request has no partition. A private field adds it, so that each partition of this process gets the addresses of its own
voters.
"""

from quorum_node.protocol import apis
from quorum_node.protocol.discover_brokers import (
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    DiscoveredBroker,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.endpoint_gossip import ReceivedEndpoint
from quorum_node.records.dialable import why_undialable
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.server.wire.errors import draft_error, raft_error
from quorum_node.server.wire.partitioned_rpc import SinglePartitionRpc
from quorum_node.server.wire.partitions import Answer, PartitionKey, metadata_partition


def _asked(body: DiscoverBrokersRequest) -> tuple[PartitionKey, raft.DiscoverBrokersRequest]:
    key = ReplicaKey(body.replica_id, body.replica_directory_id)
    endpoint = _endpoint(body.host, body.port)
    request = raft.DiscoverBrokersRequest(key, body.boot_timestamp, endpoint)
    return metadata_partition(body.partition_index), request


def _answer(body: DiscoverBrokersRequest, answer: Answer) -> DiscoverBrokersResponse:
    if not isinstance(answer, raft.DiscoverBrokersResponse):
        code = answer if isinstance(answer, ErrorCode) else draft_error(answer.error)
        return DiscoverBrokersResponse(error_code=code, brokers=())
    leader = answer.leader
    return DiscoverBrokersResponse(
        error_code=draft_error(answer.error),
        cluster_id=answer.cluster_id or "",
        brokers=tuple(
            DiscoveredBroker(
                voter_id=heard.key.id,
                boot_timestamp=heard.boot_timestamp_ms,
                host=heard.endpoint.host,
                port=heard.endpoint.port,
                voter_directory_id=heard.key.uuid,
            )
            for heard in answer.brokers
        ),
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        leader_host=leader.endpoint.host if leader.endpoint else "",
        leader_port=leader.endpoint.port if leader.endpoint else -1,
    )


def _request(number: int, request: raft.DiscoverBrokersRequest) -> DiscoverBrokersRequest:
    endpoint = request.endpoint
    return DiscoverBrokersRequest(
        replica_id=request.replica.id,
        boot_timestamp=request.boot_timestamp_ms,
        host=endpoint.host if endpoint else "",
        port=endpoint.port if endpoint else -1,
        replica_directory_id=request.replica.uuid,
        partition_index=number,
    )


def _answer_in(body: DiscoverBrokersResponse) -> raft.DiscoverBrokersResponse:
    leader = raft.CurrentLeader(
        body.leader_id, body.leader_epoch, _endpoint(body.leader_host, body.leader_port)
    )
    brokers = tuple(
        ReceivedEndpoint(
            ReplicaKey(broker.voter_id, broker.voter_directory_id), broker.boot_timestamp, endpoint
        )
        for broker in body.brokers
        if (endpoint := _endpoint(broker.host, broker.port)) is not None
    )
    return raft.DiscoverBrokersResponse(
        raft_error(body.error_code), leader, body.cluster_id or None, brokers
    )


def _endpoint(host: str, port: int) -> Endpoint | None:
    """The endpoint, or None if the host or the port is invalid."""
    return Endpoint(CONTROLLER, host, port) if why_undialable(host, port) is None else None


DISCOVER_BROKERS = SinglePartitionRpc(
    apis.DISCOVER_BROKERS,
    _asked,
    _answer,
    core_request=raft.DiscoverBrokersRequest,
    request=_request,
    answer_in=_answer_in,
)
