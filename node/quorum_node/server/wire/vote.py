"""Vote: translates one partition between the core's messages and Kafka's."""

from collections.abc import Hashable
from typing import Any

from quorum_node.protocol import apis
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
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, Parts
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    Answer,
    addressee,
    draft_error_of,
    error_and_leader,
    named_leader,
)

_PRE_VOTE_SINCE = 2


def _asked(body: VoteRequest, part: VoteRequestPartition, count: int) -> raft.VoteRequest:
    return raft.VoteRequest(
        cluster_id=body.cluster_id,
        candidate=replica_key(part.replica_id, part.replica_directory_id),
        candidate_epoch=part.replica_epoch,
        last_epoch=part.last_offset_epoch,
        last_epoch_end_offset=part.last_offset,
        voter=addressee(body.voter_id, part.voter_directory_id),
        pre_vote=part.pre_vote,
        static_voters=part.static_voters,
        recovered_epoch=part.recovered_epoch,
    )


def _answer_topic(topic: VoteRequestTopic, partitions: tuple[Any, ...]) -> VoteResponseTopic:
    return VoteResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _answer_part(
    topic: VoteRequestTopic, part: VoteRequestPartition, answer: Answer, now: Now
) -> VoteResponsePartition:
    error, leader = error_and_leader(answer)
    return VoteResponsePartition(
        partition_index=part.partition_index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        vote_granted=isinstance(answer, raft.VoteResponse) and answer.vote_granted,
        draft_error=draft_error_of(answer),
        recovered_epoch=leader.recovered_epoch,
    )


def _shared_fields(request: raft.VoteRequest) -> Hashable:
    voter_id = request.voter and request.voter.id
    return "vote", request.cluster_id, voter_id, request.pre_vote


def _can_carry(request: raft.VoteRequest, version: int) -> bool:
    return version >= _PRE_VOTE_SINCE or not request.pre_vote  # K650-02


def _request_part(number: int, request: raft.VoteRequest) -> VoteRequestPartition:
    return VoteRequestPartition(
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


def _request(parts: Parts, partitions: tuple[Any, ...], version: int) -> VoteRequest:
    first: raft.VoteRequest = parts[0][1]
    return VoteRequest(
        cluster_id=first.cluster_id,
        voter_id=first.voter.id if first.voter else -1,
        topics=(VoteRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
    )


def _answer_in(body: VoteResponse, part: VoteResponsePartition) -> raft.VoteResponse:
    leader = named_leader(
        part.leader_id, part.leader_epoch, body.node_endpoints, part.recovered_epoch
    )
    return raft.VoteResponse(
        raft_error(part.error_code, part.draft_error), leader, part.vote_granted
    )


VOTE = PartitionedRpc(
    apis.VOTE,
    _asked,
    _answer_topic,
    _answer_part,
    core_request=raft.VoteRequest,
    core_answer=raft.VoteResponse,
    request=_request,
    request_part=_request_part,
    answer_in=_answer_in,
    shared_fields=_shared_fields,
    can_carry=_can_carry,
)
