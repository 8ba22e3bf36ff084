"""DescribeQuorum: Kafka's request for the core, and the core's answers as Kafka's message.

Kafka's timestamps are wall clock; the core's are of its own clock, so ages are subtracted from now.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quorum_node.protocol.describe import (
    DescribeQuorumRequest,
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
from quorum_node.server.wire.partitions import Answer, PartitionKey, Split, top_level_error

_NEVER = -1


@dataclass(frozen=True, slots=True)
class Now:
    """One instant on both clocks, milliseconds."""

    core_ms: float
    wall_ms: int

    def wall_of(self, core_ms: float | None) -> int:
        """Wall-clock time of an instant of the core's clock; -1 for never."""
        return _NEVER if core_ms is None else self.wall_ms - round(self.core_ms - core_ms)


def split_describe(body: DescribeQuorumRequest) -> Split:
    """The questions of a request, one per partition."""
    return [
        (PartitionKey(topic.topic_name, part.partition_index), raft.DescribeQuorumRequest())
        for topic in body.topics
        for part in topic.partitions
    ]


def join_describe(
    body: DescribeQuorumRequest, answers: Sequence[Answer], now: Now
) -> DescribeQuorumResponse:
    """The answer to a DescribeQuorum; `answers` in the order of `split_describe`."""
    remaining = iter(answers)
    nodes: dict[int, QuorumNode] = {}
    topics = tuple(
        DescribeQuorumResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _partition(part.partition_index, next(remaining), now, nodes)
                for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return DescribeQuorumResponse(
        error_code=top_level_error(answers), topics=topics, nodes=tuple(nodes.values())
    )


def _partition(
    index: int, answer: Answer, now: Now, nodes: dict[int, QuorumNode]
) -> DescribeQuorumResponsePartition:
    if not isinstance(answer, raft.DescribeQuorumResponse):
        error = answer if isinstance(answer, ErrorCode) else wire_error(answer.error)
        return DescribeQuorumResponsePartition(
            partition_index=index, error_code=error, error_message=error.name,
            leader_id=-1, leader_epoch=-1, high_watermark=-1, current_voters=(), observers=(),
        )  # fmt: skip
    for voter in answer.voters:
        # An id may stand here once only; of a doubled id the newest key, the last, stays.
        nodes[voter.key.id] = _node(voter)
    ok = answer.error is RaftError.NONE
    return DescribeQuorumResponsePartition(
        partition_index=index,
        error_code=wire_error(answer.error),
        error_message=None if ok else answer.error.value,
        leader_id=answer.leader.leader_id,
        leader_epoch=answer.leader.leader_epoch,
        high_watermark=answer.high_watermark,
        current_voters=tuple(_replica(voter, now) for voter in answer.voters),
        observers=tuple(_replica(observer, now) for observer in answer.observers),
        target_voters=tuple(_replica(target, now) for target in answer.target_voters or ()),
    )


def _node(voter: raft.ReplicaProgress) -> QuorumNode:
    listeners = tuple(
        QuorumListener(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
    )
    return QuorumNode(node_id=voter.key.id, listeners=listeners)


def _replica(progress: raft.ReplicaProgress, now: Now) -> QuorumReplica:
    return QuorumReplica(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.uuid,
        log_end_offset=progress.log_end_offset,
        last_fetch_timestamp_ms=now.wall_of(progress.last_fetch_ms),
        last_caught_up_timestamp_ms=now.wall_of(progress.last_caught_up_ms),
    )
