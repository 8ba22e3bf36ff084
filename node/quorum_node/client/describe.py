"""DescribeQuorum (KIP-595) and DescribeCluster for controllers (KIP-919), as the clients of this package send them.

Owns requests and versions. Must not know retries, nor what an error means to the caller.
"""

from quorum_node.client.connections import Address, Connections
from quorum_node.protocol import apis
from quorum_node.protocol.describe import (
    ENDPOINTS_OF_CONTROLLERS,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
)

METADATA_TOPIC = "__cluster_metadata"
_QUORUM_VERSION = 2
_CLUSTER_VERSION = 1


def describe_quorum(
    connections: Connections, address: Address, timeout_seconds: float, partition: int = 0
) -> DescribeQuorumResponse:
    """The quorum of one partition, as this server answers; it has no topics if the request was refused. Raises OSError."""
    part = DescribeQuorumRequestPartition(partition_index=partition)
    topic = DescribeQuorumRequestTopic(topic_name=METADATA_TOPIC, partitions=(part,))
    request, answer = DescribeQuorumRequest(topics=(topic,)), DescribeQuorumResponse
    api, version = apis.DESCRIBE_QUORUM, _QUORUM_VERSION
    return connections.ask(address, api, version, request, answer, timeout_seconds)


def describe_cluster(
    connections: Connections, address: Address, timeout_seconds: float
) -> DescribeClusterResponse:
    """The cluster id and the controllers, as this server answers. Raises OSError."""
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, endpoint_type=ENDPOINTS_OF_CONTROLLERS
    )
    api, version, answer = apis.DESCRIBE_CLUSTER, _CLUSTER_VERSION, DescribeClusterResponse
    return connections.ask(address, api, version, request, answer, timeout_seconds)
