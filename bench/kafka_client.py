"""Finds the leader of our nodes or of Kafka's controllers, by DescribeQuorum."""

import time

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
Address = tuple[str, int]


def describe(
    address: Address, timeout_seconds: float = 1.0
) -> DescribeQuorumResponsePartition | None:
    """The quorum as described by the leader that this node names; None if it does not answer."""
    partition = DescribeQuorumRequestPartition(partition_index=0)
    topic = DescribeQuorumRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    try:
        answer = ask(
            address, DESCRIBE_QUORUM, 2, DescribeQuorumRequest(topics=(topic,)), timeout_seconds
        )
    except (OSError, MalformedMessage):
        return None
    assert isinstance(answer, DescribeQuorumResponse)
    if answer.error_code != 0 or not answer.topics:
        return None
    found = answer.topics[0].partitions[0]
    return found if found.error_code == 0 else None


def await_leader(
    addresses: list[Address], timeout_seconds: float = 60.0
) -> tuple[int, DescribeQuorumResponsePartition]:
    """Wait for the leader; returns its index and its description of the quorum."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        for index, address in enumerate(addresses):
            found = describe(address)
            if found is not None and found.high_watermark > 0:
                return index, found
        time.sleep(0.05)
    raise TimeoutError(f"no leader among {addresses}")
