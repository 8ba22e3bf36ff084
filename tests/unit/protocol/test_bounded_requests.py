"""The memory of a parsed request is bounded before its sender is authenticated."""

import pytest

from quorum_node.protocol import apis
from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumRequestTopic,
    TargetVoter,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.elections import VoteRequest, VoteRequestPartition, VoteRequestTopic
from quorum_node.protocol.frames import MAX_FEW_ELEMENTS, SIZE_BYTES, decode_request, encode_request
from quorum_node.schema.schema import MalformedMessage, Message


def altering(voters: int) -> AlterQuorumRequest:
    targets = tuple(TargetVoter(voter_id=number) for number in range(voters))
    part = AlterQuorumRequestPartition(partition_index=0, target_voters=targets)
    topic = AlterQuorumRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
    return AlterQuorumRequest(cluster_id="c", topics=(topic,))


def voting(partitions: int) -> VoteRequest:
    parts = tuple(
        VoteRequestPartition(
            partition_index=number,
            replica_epoch=1,
            replica_id=1,
            last_offset_epoch=1,
            last_offset=1,
        )
        for number in range(partitions)
    )
    return VoteRequest(topics=(VoteRequestTopic(topic_name="t", partitions=parts),))


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (apis.ALTER_QUORUM, altering(20_000)),
        (apis.ALTER_QUORUM, altering(MAX_FEW_ELEMENTS)),
        (apis.VOTE, voting(5000)),
    ],
)
def test_quorum_request_has_few_elements(api: apis.Api, body: Message) -> None:
    frame = encode_request(api, api.max_version, 1, "x", body)[SIZE_BYTES:]
    with pytest.raises(MalformedMessage):
        decode_request(frame)


def test_topic_request_may_have_many_elements() -> None:
    configs = tuple(
        AlterableConfig(name=f"n{number}", config_operation=0, value="v")
        for number in range(20_000)
    )
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
    body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    frame = encode_request(apis.INCREMENTAL_ALTER_CONFIGS, 1, 1, "x", body)[SIZE_BYTES:]
    assert decode_request(frame).body == body


def test_largest_voter_list_is_accepted() -> None:
    frame = encode_request(apis.ALTER_QUORUM, 0, 1, "x", altering(100))[SIZE_BYTES:]
    assert decode_request(frame).body == altering(100)
