"""ReadOffset (KIP-650): translates one partition between the core's messages and Kafka's.

Reads of different partitions never share a message: a read must not wait for the confirmation of another one.
"""

from collections.abc import Sequence
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol.api import Api
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
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, Parts
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    Answer,
    named_leader,
    node_endpoints,
    top_level_error,
)


def _asked(
    body: ReadOffsetRequest, part: ReadOffsetRequestPartition, count: int
) -> raft.ReadOffsetRequest:
    return raft.ReadOffsetRequest(body.cluster_id, body.read_timestamp, body.stale)


def _answer(
    api: Api, body: ReadOffsetRequest, topics: tuple[Any, ...], answers: Sequence[Answer]
) -> ReadOffsetResponse:
    return ReadOffsetResponse(
        cluster_id=body.cluster_id,
        topics=topics,
        error_code=_top_level_error(answers),
        node_endpoints=node_endpoints(answers),
    )


def _top_level_error(answers: Sequence[Answer]) -> ErrorCode:
    refused = top_level_error(answers) is not ErrorCode.NONE
    return ErrorCode.INVALID_CLUSTER_ID if refused else ErrorCode.NONE


def _answer_topic(
    topic: ReadOffsetRequestTopic, partitions: tuple[Any, ...]
) -> ReadOffsetResponseTopic:
    return ReadOffsetResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _answer_part(
    topic: ReadOffsetRequestTopic, part: ReadOffsetRequestPartition, answer: Answer, now: Now
) -> ReadOffsetResponsePartition:
    index = part.partition_index
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


def _request_part(number: int, request: raft.ReadOffsetRequest) -> ReadOffsetRequestPartition:
    return ReadOffsetRequestPartition(partition_index=number)


def _request(parts: Parts, partitions: tuple[Any, ...], version: int) -> ReadOffsetRequest:
    first: raft.ReadOffsetRequest = parts[0][1]
    return ReadOffsetRequest(
        cluster_id=first.cluster_id,
        read_timestamp=first.read_timestamp_ms,
        topics=(ReadOffsetRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
        stale=first.stale,
    )


def _answer_in(
    body: ReadOffsetResponse, part: ReadOffsetResponsePartition
) -> raft.ReadOffsetResponse:
    leader = part.current_leader
    return raft.ReadOffsetResponse(
        raft_error(part.error_code),
        named_leader(leader.leader_id, leader.leader_epoch, body.node_endpoints),
        part.applied_offset,
        part.age_ms,
    )


READ_OFFSET = PartitionedRpc(
    apis.READ_OFFSET,
    _asked,
    _answer_topic,
    _answer_part,
    _answer,
    core_request=raft.ReadOffsetRequest,
    core_answer=raft.ReadOffsetResponse,
    request=_request,
    request_part=_request_part,
    answer_in=_answer_in,
)
