"""AlterQuorum: translates Kafka's request for the core, and the core's answers back, per partition."""

from collections.abc import Sequence
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumRequestTopic,
    AlterQuorumResponse,
    AlterQuorumResponsePartition,
    AlterQuorumResponseTopic,
)
from quorum_node.protocol.api import Api
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.records.identity import ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.server.wire.errors import draft_error
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, not_a_direction
from quorum_node.server.wire.partitions import Answer, node_endpoints


def _asked(
    body: AlterQuorumRequest, part: AlterQuorumRequestPartition, count: int
) -> raft.AlterQuorumRequest:
    target = None
    if part.target_voters is not None:
        target = tuple(
            ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in part.target_voters
        )
    expected = None
    if part.expected_offset >= 0:
        expected = raft.VotersPosition(part.expected_offset, part.expected_epoch)
    return raft.AlterQuorumRequest(body.cluster_id, target, max(body.timeout_ms, 0), expected)


def _answer(
    api: Api, body: AlterQuorumRequest, topics: tuple[Any, ...], answers: Sequence[Answer]
) -> AlterQuorumResponse:
    return AlterQuorumResponse(topics=topics, node_endpoints=node_endpoints(answers))


def _answer_topic(
    topic: AlterQuorumRequestTopic, partitions: tuple[Any, ...]
) -> AlterQuorumResponseTopic:
    return AlterQuorumResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _answer_part(
    topic: AlterQuorumRequestTopic, part: AlterQuorumRequestPartition, answer: Answer, now: Now
) -> AlterQuorumResponsePartition:
    index = part.partition_index
    if isinstance(answer, ErrorCode):
        return AlterQuorumResponsePartition(
            partition_index=index, error_code=answer, error_message=answer.name
        )
    error = draft_error(answer.error)
    message, position = "", None
    if isinstance(answer, raft.VoterChangeResponse):
        message, position = answer.message, answer.position
    if error is not ErrorCode.NONE:
        message = message or answer.error.value
    return AlterQuorumResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=answer.leader.leader_id,
        leader_epoch=answer.leader.leader_epoch,
        error_message=message,
        voters_offset=-1 if position is None else position.offset,
        voters_epoch=-1 if position is None else position.epoch,
    )


ALTER_QUORUM = PartitionedRpc(apis.ALTER_QUORUM, _asked, _answer_topic, _answer_part, _answer)


def refuse_alter_quorum(body: AlterQuorumRequest, error: ErrorCode) -> Message:
    """The refusal with the same error for every partition, made without a replica."""
    errors = [error] * sum(len(topic.partitions) for topic in body.topics)
    return ALTER_QUORUM.join(body, errors, not_a_direction)
