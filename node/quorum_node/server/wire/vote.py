"""Vote: the core's messages and Kafka's, both ways, any number of partitions in one message."""

from collections.abc import Sequence

from quorum_node.protocol.elections import (
    VoteRequest,
    VoteRequestPartition,
    VoteRequestTopic,
    VoteResponse,
    VoteResponsePartition,
    VoteResponseTopic,
)
from quorum_node.raft import messages as raft
from quorum_node.records.identity import replica_key
from quorum_node.server.wire.errors import raft_error
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    NO_LEADER,
    Answer,
    PartitionKey,
    Split,
    addressee,
    error_and_leader,
    missing_answer,
    named_leader,
    node_endpoints,
    told_draft_error,
    top_level_error,
)


def split_vote(body: VoteRequest) -> Split:
    """The questions of a request, one per partition."""
    return [
        (
            PartitionKey(topic.topic_name, part.partition_index),
            raft.VoteRequest(
                cluster_id=body.cluster_id,
                candidate=replica_key(part.replica_id, part.replica_directory_id),
                candidate_epoch=part.replica_epoch,
                last_epoch=part.last_offset_epoch,
                last_epoch_end_offset=part.last_offset,
                voter=addressee(body.voter_id, part.voter_directory_id),
                pre_vote=part.pre_vote,
                static_voters=part.static_voters,
                recovered_epoch=part.recovered_epoch,
            ),
        )
        for topic in body.topics
        for part in topic.partitions
    ]


def join_vote(body: VoteRequest, answers: Sequence[Answer]) -> VoteResponse:
    """The answer to a Vote; `answers` in the order of `split_vote`."""
    remaining = iter(answers)
    topics = tuple(
        VoteResponseTopic(
            topic_name=topic.topic_name,
            partitions=tuple(
                _partition(part.partition_index, next(remaining)) for part in topic.partitions
            ),
        )
        for topic in body.topics
    )
    return VoteResponse(
        error_code=top_level_error(answers), topics=topics, node_endpoints=node_endpoints(answers)
    )


def _partition(index: int, answer: Answer) -> VoteResponsePartition:
    error, leader = error_and_leader(answer)
    return VoteResponsePartition(
        partition_index=index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        vote_granted=isinstance(answer, raft.VoteResponse) and answer.vote_granted,
        draft_error=told_draft_error(answer),
        recovered_epoch=leader.recovered_epoch,
    )


def vote_request(parts: Sequence[tuple[int, raft.VoteRequest]]) -> VoteRequest:
    """One Kafka request for the questions of several partitions to one voter id."""
    first = parts[0][1]
    partitions = tuple(
        VoteRequestPartition(
            partition_index=number,
            replica_epoch=request.candidate_epoch,
            replica_id=request.candidate.id,
            replica_directory_id=request.candidate.uuid,
            voter_directory_id=request.voter.uuid if request.voter else None,
            last_offset_epoch=request.last_epoch,
            last_offset=request.last_epoch_end_offset,
            pre_vote=request.pre_vote,
            static_voters=request.static_voters,
            recovered_epoch=request.recovered_epoch,
        )
        for number, request in parts
    )
    return VoteRequest(
        cluster_id=first.cluster_id,
        voter_id=first.voter.id if first.voter else -1,
        topics=(VoteRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
    )


def vote_answers(body: VoteResponse, numbers: Sequence[int]) -> list[raft.InboundResponse]:
    """The answers for partitions `numbers`, in this order."""
    found = {
        part.partition_index: part
        for topic in body.topics
        if topic.topic_name == METADATA_TOPIC
        for part in topic.partitions
    }
    answers: list[raft.InboundResponse] = []
    for number in numbers:
        part = found.get(number)
        if body.error_code or part is None:
            answers.append(raft.VoteResponse(missing_answer(body.error_code), NO_LEADER))
            continue
        leader = named_leader(
            part.leader_id, part.leader_epoch, body.node_endpoints, part.recovered_epoch
        )
        error = raft_error(part.error_code, part.draft_error)
        answers.append(raft.VoteResponse(error, leader, part.vote_granted))
    return answers
