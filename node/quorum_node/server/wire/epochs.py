"""BeginQuorumEpoch and EndQuorumEpoch: the core's messages and Kafka's, both ways, any number of
partitions in one message.
"""

from collections.abc import Sequence

from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochRequestPartition,
    BeginQuorumEpochRequestTopic,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartition,
    EndQuorumEpochRequestTopic,
    EndQuorumEpochResponse,
    EpochResponsePartition,
    EpochResponseTopic,
    PreferredCandidate,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.wire.errors import raft_error
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    NO_LEADER,
    Answer,
    PartitionKey,
    Split,
    addressee,
    error_and_leader,
    leader_endpoint,
    missing_answer,
    named_leader,
    node_endpoints,
    own_endpoints,
    told_draft_error,
    top_level_error,
)


def split_begin(body: BeginQuorumEpochRequest) -> Split:
    """What a leader tells, one message per partition."""
    endpoint = leader_endpoint(body.leader_endpoints)
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.BeginQuorumEpochRequest(
                body.cluster_id,
                part.leader_id,
                part.leader_epoch,
                addressee(body.voter_id, part.voter_directory_id),
                endpoint,
                part.recovered_epoch,
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def split_end(body: EndQuorumEpochRequest) -> Split:
    """The resignations of a request, one per partition."""
    endpoint = leader_endpoint(body.leader_endpoints)
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.EndQuorumEpochRequest(
                body.cluster_id, part.leader_id, part.leader_epoch, _successors(part), endpoint
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def _successors(part: EndQuorumEpochRequestPartition) -> tuple[ReplicaKey, ...]:
    if part.preferred_candidates:
        return tuple(
            ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in part.preferred_candidates
        )
    return tuple(ReplicaKey(successor) for successor in part.preferred_successors)


def join_begin(
    body: BeginQuorumEpochRequest, answers: Sequence[Answer]
) -> BeginQuorumEpochResponse:
    """The answer to a BeginQuorumEpoch; `answers` in the order of `split_begin`."""
    return BeginQuorumEpochResponse(
        error_code=top_level_error(answers),
        topics=_topics(body, answers),
        node_endpoints=node_endpoints(answers),
    )


def join_end(body: EndQuorumEpochRequest, answers: Sequence[Answer]) -> EndQuorumEpochResponse:
    """The answer to an EndQuorumEpoch; `answers` in the order of `split_end`."""
    return EndQuorumEpochResponse(
        error_code=top_level_error(answers),
        topics=_topics(body, answers),
        node_endpoints=node_endpoints(answers),
    )


def _topics(
    body: BeginQuorumEpochRequest | EndQuorumEpochRequest, answers: Sequence[Answer]
) -> tuple[EpochResponseTopic, ...]:
    remaining = iter(answers)
    return tuple(
        EpochResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _partition(part.partition_index, next(remaining)) for part in topic.partitions
            ),
        )
        for topic in body.topics
    )


def _partition(index: int, answer: Answer) -> EpochResponsePartition:
    error, leader = error_and_leader(answer)
    return EpochResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        draft_error=told_draft_error(answer),
        recovered_epoch=leader.recovered_epoch,
    )


def begin_request(
    parts: Sequence[tuple[int, raft.BeginQuorumEpochRequest]],
) -> BeginQuorumEpochRequest:
    """One Kafka request for the partitions that this node leads now."""
    first = parts[0][1]
    partitions = tuple(
        BeginQuorumEpochRequestPartition(
            partition_index=number,
            voter_directory_id=request.voter.uuid if request.voter else None,
            leader_id=request.leader_id,
            leader_epoch=request.leader_epoch,
            recovered_epoch=request.recovered_epoch,
        )
        for number, request in parts
    )
    return BeginQuorumEpochRequest(
        cluster_id=first.cluster_id,
        voter_id=first.voter.id if first.voter else -1,
        topics=(BeginQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
        leader_endpoints=own_endpoints(first.leader_endpoint),
    )


def end_request(parts: Sequence[tuple[int, raft.EndQuorumEpochRequest]]) -> EndQuorumEpochRequest:
    """One Kafka request for the partitions that this node resigns from."""
    first = parts[0][1]
    partitions = tuple(
        EndQuorumEpochRequestPartition(
            partition_index=number,
            leader_id=request.leader_id,
            leader_epoch=request.leader_epoch,
            preferred_successors=tuple(key.id for key in request.preferred_successors),
            preferred_candidates=tuple(
                PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.uuid)
                for key in request.preferred_successors
            ),
        )
        for number, request in parts
    )
    return EndQuorumEpochRequest(
        cluster_id=first.cluster_id,
        topics=(EndQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
        leader_endpoints=own_endpoints(first.leader_endpoint),
    )


def begin_answers(
    body: BeginQuorumEpochResponse, numbers: Sequence[int]
) -> list[raft.InboundResponse]:
    """The answers for partitions `numbers`, in this order."""
    return [raft.BeginQuorumEpochResponse(*outcome) for outcome in _outcomes(body, numbers)]


def end_answers(body: EndQuorumEpochResponse, numbers: Sequence[int]) -> list[raft.InboundResponse]:
    """The answers for partitions `numbers`, in this order."""
    return [raft.EndQuorumEpochResponse(*outcome) for outcome in _outcomes(body, numbers)]


def _outcomes(
    body: BeginQuorumEpochResponse | EndQuorumEpochResponse, numbers: Sequence[int]
) -> list[tuple[RaftError, raft.CurrentLeader]]:
    found = {
        part.partition_index: part
        for topic in body.topics
        if topic.topic_name == METADATA_TOPIC
        for part in topic.partitions
    }
    outcomes = []
    for number in numbers:
        part = found.get(number)
        if body.error_code or part is None:
            outcomes.append((missing_answer(body.error_code), NO_LEADER))
        else:
            leader = named_leader(
                part.leader_id, part.leader_epoch, body.node_endpoints, part.recovered_epoch
            )
            error = raft_error(part.error_code, part.draft_error)
            outcomes.append((error, leader))
    return outcomes
