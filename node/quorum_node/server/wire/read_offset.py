"""ReadOffset (KIP-650): the core's messages and Kafka's, both ways.

Reads of different partitions never share a message: one must not wait for another's confirmation.
"""

from collections.abc import Sequence

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import LeaderIdAndEpoch
from quorum_node.protocol.read_offset import (
    ReadOffsetRequest,
    ReadOffsetRequestPartition,
    ReadOffsetRequestTopic,
    ReadOffsetResponse,
    ReadOffsetResponsePartition,
    ReadOffsetResponseTopic,
)
from quorum_node.raft import messages as raft
from quorum_node.server.wire.errors import draft_error, raft_error
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    NO_LEADER,
    Answer,
    PartitionKey,
    Split,
    missing_answer,
    named_leader,
    node_endpoints,
    top_level_error,
)


def split_read_offset(body: ReadOffsetRequest) -> Split:
    """The questions of a request, one per partition."""
    read = raft.ReadOffsetRequest(body.cluster_id, body.read_timestamp, body.stale)
    return [
        (PartitionKey(topic.topic_name, part.partition_index), read)
        for topic in body.topics
        for part in topic.partitions
    ]


def join_read_offset(body: ReadOffsetRequest, answers: Sequence[Answer]) -> ReadOffsetResponse:
    """The answer to a ReadOffset; `answers` in the order of `split_read_offset`."""
    remaining = iter(answers)
    topics = tuple(
        ReadOffsetResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _partition(part.partition_index, next(remaining)) for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return ReadOffsetResponse(
        cluster_id=body.cluster_id,
        topics=topics,
        error_code=_top_level_error(answers),
        node_endpoints=node_endpoints(answers),
    )


def _top_level_error(answers: Sequence[Answer]) -> ErrorCode:
    refused = top_level_error(answers) is not ErrorCode.NONE
    return ErrorCode.INVALID_CLUSTER_ID if refused else ErrorCode.NONE


def _partition(index: int, answer: Answer) -> ReadOffsetResponsePartition:
    if not isinstance(answer, raft.ReadOffsetResponse):
        error = answer if isinstance(answer, ErrorCode) else draft_error(answer.error)
        return ReadOffsetResponsePartition(
            partition_index=index, applied_offset=-1, error_code=error
        )
    leader = answer.leader
    return ReadOffsetResponsePartition(
        partition_index=index,
        applied_offset=answer.offset,
        error_code=draft_error(answer.error),
        current_leader=LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        ),
        age_ms=answer.age_ms,
    )


def read_offset_request(number: int, request: raft.ReadOffsetRequest) -> ReadOffsetRequest:
    """The core's own question, for a partition."""
    partition = ReadOffsetRequestPartition(partition_index=number)
    return ReadOffsetRequest(
        cluster_id=request.cluster_id,
        read_timestamp=request.read_timestamp_ms,
        topics=(ReadOffsetRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,)),),
        stale=request.stale,
    )


def read_offset_answer(body: ReadOffsetResponse, number: int) -> raft.ReadOffsetResponse:
    """The leader's answer to it."""
    for topic in body.topics:
        for part in topic.partitions:
            asked = topic.topic_name == METADATA_TOPIC and part.partition_index == number
            if asked and not body.error_code:
                leader = part.current_leader
                return raft.ReadOffsetResponse(
                    raft_error(part.error_code),
                    named_leader(leader.leader_id, leader.leader_epoch, body.node_endpoints),
                    part.applied_offset,
                    part.age_ms,
                )
    return raft.ReadOffsetResponse(missing_answer(body.error_code), NO_LEADER)
