"""BeginQuorumEpoch and EndQuorumEpoch: translate one partition between the core's messages and Kafka's."""

from collections.abc import Hashable
from typing import Any

from quorum_node.protocol import apis
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
from quorum_node.server.wire.partitioned_rpc import Now, PartitionedRpc, Parts
from quorum_node.server.wire.partitions import (
    METADATA_TOPIC,
    Answer,
    addressee,
    draft_error_of,
    error_and_leader,
    leader_endpoint,
    named_leader,
    own_endpoints,
)

_Topic = BeginQuorumEpochRequestTopic | EndQuorumEpochRequestTopic
_Part = BeginQuorumEpochRequestPartition | EndQuorumEpochRequestPartition


def _answer_topic(topic: _Topic, partitions: tuple[Any, ...]) -> EpochResponseTopic:
    return EpochResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def _answer_part(topic: _Topic, part: _Part, answer: Answer, now: Now) -> EpochResponsePartition:
    error, leader = error_and_leader(answer)
    return EpochResponsePartition(
        partition_index=part.partition_index,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.leader_epoch,
        draft_error=draft_error_of(answer),
        recovered_epoch=leader.recovered_epoch,
    )


def _outcome(
    body: BeginQuorumEpochResponse | EndQuorumEpochResponse, part: EpochResponsePartition
) -> tuple[RaftError, raft.CurrentLeader]:
    leader = named_leader(
        part.leader_id, part.leader_epoch, body.node_endpoints, part.recovered_epoch
    )
    return raft_error(part.error_code, part.draft_error), leader


def _begin_requested(
    body: BeginQuorumEpochRequest, part: BeginQuorumEpochRequestPartition, count: int
) -> raft.BeginQuorumEpochRequest:
    return raft.BeginQuorumEpochRequest(
        body.cluster_id,
        part.leader_id,
        part.leader_epoch,
        addressee(body.voter_id, part.voter_directory_id),
        leader_endpoint(body.leader_endpoints),
        part.recovered_epoch,
    )


def _begin_shared_fields(request: raft.BeginQuorumEpochRequest) -> Hashable:
    voter_id = request.voter and request.voter.id
    return "begin", request.cluster_id, voter_id, request.leader_endpoint


def _begin_request_part(
    number: int, request: raft.BeginQuorumEpochRequest
) -> BeginQuorumEpochRequestPartition:
    return BeginQuorumEpochRequestPartition(
        partition_index=number,
        voter_directory_id=request.voter.uuid if request.voter else None,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        recovered_epoch=request.recovered_epoch,
    )


def _begin_request(
    parts: Parts, partitions: tuple[Any, ...], version: int
) -> BeginQuorumEpochRequest:
    first: raft.BeginQuorumEpochRequest = parts[0][1]
    return BeginQuorumEpochRequest(
        cluster_id=first.cluster_id,
        voter_id=first.voter.id if first.voter else -1,
        topics=(BeginQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
        leader_endpoints=own_endpoints(first.leader_endpoint),
    )


def _end_requested(
    body: EndQuorumEpochRequest, part: EndQuorumEpochRequestPartition, count: int
) -> raft.EndQuorumEpochRequest:
    if part.preferred_candidates:
        successors = tuple(
            ReplicaKey(c.candidate_id, c.candidate_directory_id) for c in part.preferred_candidates
        )
    else:
        successors = tuple(ReplicaKey(successor) for successor in part.preferred_successors)
    endpoint = leader_endpoint(body.leader_endpoints)
    return raft.EndQuorumEpochRequest(
        body.cluster_id, part.leader_id, part.leader_epoch, successors, endpoint
    )


def _end_shared_fields(request: raft.EndQuorumEpochRequest) -> Hashable:
    return "end", request.cluster_id, request.leader_endpoint


def _end_request_part(
    number: int, request: raft.EndQuorumEpochRequest
) -> EndQuorumEpochRequestPartition:
    successors = request.preferred_successors
    return EndQuorumEpochRequestPartition(
        partition_index=number,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=tuple(key.id for key in successors),
        preferred_candidates=tuple(
            PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.uuid)
            for key in successors
        ),
    )


def _end_request(parts: Parts, partitions: tuple[Any, ...], version: int) -> EndQuorumEpochRequest:
    first: raft.EndQuorumEpochRequest = parts[0][1]
    return EndQuorumEpochRequest(
        cluster_id=first.cluster_id,
        topics=(EndQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=partitions),),
        leader_endpoints=own_endpoints(first.leader_endpoint),
    )


BEGIN_QUORUM_EPOCH = PartitionedRpc(
    apis.BEGIN_QUORUM_EPOCH,
    _begin_requested,
    _answer_topic,
    _answer_part,
    core_request=raft.BeginQuorumEpochRequest,
    core_answer=raft.BeginQuorumEpochResponse,
    request=_begin_request,
    request_part=_begin_request_part,
    answer_in=lambda body, part: raft.BeginQuorumEpochResponse(*_outcome(body, part)),
    shared_fields=_begin_shared_fields,
)
END_QUORUM_EPOCH = PartitionedRpc(
    apis.END_QUORUM_EPOCH,
    _end_requested,
    _answer_topic,
    _answer_part,
    core_request=raft.EndQuorumEpochRequest,
    core_answer=raft.EndQuorumEpochResponse,
    request=_end_request,
    request_part=_end_request_part,
    answer_in=lambda body, part: raft.EndQuorumEpochResponse(*_outcome(body, part)),
    shared_fields=_end_shared_fields,
)
