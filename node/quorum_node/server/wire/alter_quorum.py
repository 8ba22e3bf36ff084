"""AlterQuorum: Kafka's shape of it for the core, and the core's answers back, per partition."""

from collections.abc import Sequence

from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumResponse,
    AlterQuorumResponsePartition,
    AlterQuorumResponseTopic,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft import messages as raft
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.wire.errors import draft_error
from quorum_node.server.wire.partitions import Answer, PartitionKey, Split, node_endpoints


def split_alter_quorum(body: AlterQuorumRequest) -> Split:
    """The new targets of a request, one per partition."""
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            _alter(body.cluster_id, max(body.timeout_ms, 0), part),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def _alter(
    cluster_id: str, timeout_ms: int, part: AlterQuorumRequestPartition
) -> raft.AlterQuorumRequest:
    target = None
    if part.target_voters is not None:
        target = tuple(
            ReplicaKey(voter.voter_id, voter.voter_directory_id) for voter in part.target_voters
        )
    expected = None
    if part.expected_offset >= 0:
        expected = raft.VotersPosition(part.expected_offset, part.expected_epoch)
    return raft.AlterQuorumRequest(cluster_id, target, timeout_ms, expected)


def join_alter_quorum(body: AlterQuorumRequest, answers: Sequence[Answer]) -> AlterQuorumResponse:
    """The answer to an AlterQuorum; `answers` in the order of `split_alter_quorum`."""
    remaining = iter(answers)
    topics = tuple(
        AlterQuorumResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _partition(part.partition_index, next(remaining)) for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return AlterQuorumResponse(topics=topics, node_endpoints=node_endpoints(answers))


def refuse_alter_quorum(body: AlterQuorumRequest, error: ErrorCode) -> AlterQuorumResponse:
    """The same outcome for every partition, without asking a replica."""
    return join_alter_quorum(body, [error] * sum(len(topic.partitions) for topic in body.topics))


def _partition(index: int, answer: Answer) -> AlterQuorumResponsePartition:
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
