"""DescribeQuorum, asked of one process, which may be stock Kafka's."""

import ssl

from quorum_node.protocol.apis import DESCRIBE_QUORUM
from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
)
from quorum_node.schema.schema import MalformedMessage
from support.one_request import ask

METADATA_TOPIC = "__cluster_metadata"


def describe_quorum(
    address: tuple[str, int], timeout_seconds: float = 1.0, tls: ssl.SSLContext | None = None
) -> DescribeQuorumResponsePartition | None:
    """The description by this process as the leader; None if it does not lead or does not answer."""
    partition = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    request = DescribeQuorumRequest(topics=(topic,))
    try:
        answer = ask(address, DESCRIBE_QUORUM, 2, request, timeout_seconds, tls)
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, DescribeQuorumResponse)
    if answer.error_code != 0 or not answer.topics:
        return None
    found = answer.topics[0].partitions[0]
    return found if found.error_code == 0 else None
