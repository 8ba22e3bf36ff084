"""DescribeQuorum: translates one partition of Kafka's request for the core, and the core's answer back."""

from collections.abc import Sequence
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartition,
    DescribeQuorumResponseTopic,
    QuorumListener,
    QuorumNode,
    QuorumReplica,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.server.wire.errors import wire_error
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc
from quorum_node.server.wire.partitions import Answer, top_level_error


def _asked(
    body: DescribeQuorumRequest, part: DescribeQuorumRequestPartition, count: int
) -> raft.DescribeQuorumRequest:
    return raft.DescribeQuorumRequest()


def _answer(
    api: Api, body: DescribeQuorumRequest, topics: tuple[Any, ...], answers: Sequence[Answer]
) -> DescribeQuorumResponse:
    nodes: dict[int, QuorumNode] = {}
    for answer in answers:
        if isinstance(answer, raft.DescribeQuorumResponse):
            # Each id may occur only once here: of several replicas with the same id, the last one is kept, which is the newest.
            nodes.update((voter.key.id, _node(voter)) for voter in answer.voters)
    return DescribeQuorumResponse(
        error_code=top_level_error(answers), topics=topics, nodes=tuple(nodes.values())
    )


def _answer_topic(
    topic: DescribeQuorumRequestTopic, partitions: tuple[Any, ...]
) -> DescribeQuorumResponseTopic:
    return DescribeQuorumResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _answer_part(
    topic: DescribeQuorumRequestTopic,
    part: DescribeQuorumRequestPartition,
    answer: Answer,
    now: Now,
) -> DescribeQuorumResponsePartition:
    index = part.partition_index
    if not isinstance(answer, raft.DescribeQuorumResponse):
        error = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        return DescribeQuorumResponsePartition(
            partition_index=index, error_code=error, error_message=error.name,
            leader_id=-1, leader_epoch=-1, high_watermark=-1, current_voters=(), observers=(),
        )  # fmt: skip
    ok, at = answer.error is RaftError.NONE, now()
    return DescribeQuorumResponsePartition(
        partition_index=index,
        error_code=wire_error(answer.error),
        error_message=None if ok else answer.error.value,
        leader_id=answer.leader.leader_id,
        leader_epoch=answer.leader.leader_epoch,
        high_watermark=answer.high_watermark,
        current_voters=tuple(_replica(voter, at) for voter in answer.voters),
        observers=tuple(_replica(observer, at) for observer in answer.observers),
        target_voters=tuple(_replica(target, at) for target in answer.target_voters or ()),
    )


def _node(voter: raft.ReplicaProgress) -> QuorumNode:
    listeners = tuple(
        QuorumListener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
    )
    return QuorumNode(node_id=voter.key.id, listeners=listeners)


def _replica(progress: raft.ReplicaProgress, at: Instant) -> QuorumReplica:
    return QuorumReplica(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.uuid,
        log_end_offset=progress.log_end_offset,
        last_fetch_timestamp_ms=at.wall_of(progress.last_fetch_ms),
        last_caught_up_timestamp_ms=at.wall_of(progress.last_caught_up_ms),
    )


DESCRIBE_QUORUM = PartitionedRpc(apis.DESCRIBE_QUORUM, _asked, _answer_topic, _answer_part, _answer)
