"""The core's own requests as Kafka's messages, and the peers' answers back into the core's.

The reverse of `wire_inbound`, for the metadata partition. Knows no connections: the caller gives
the version that it negotiated.
"""

from quorum_node.protocol import apis
from quorum_node.protocol import elections as el
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import Api
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from quorum_node.protocol.schema import MalformedMessage, Message
from quorum_node.protocol.voters import (
    KRaftVersionFeature,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
    VoterListener,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import Endpoint
from quorum_node.server.wire_errors import raft_error
from quorum_node.server.wire_inbound import METADATA_TOPIC, METADATA_TOPIC_ID

KRAFT_VERSION_FEATURE = "kraft.version"
CLIENT_SOFTWARE = "metadataquorum"

_APIS: dict[type, Api] = {
    raft.VoteRequest: apis.VOTE,
    raft.BeginQuorumEpochRequest: apis.BEGIN_QUORUM_EPOCH,
    raft.EndQuorumEpochRequest: apis.END_QUORUM_EPOCH,
    raft.FetchRequest: apis.FETCH,
    raft.UpdateVoterRequest: apis.UPDATE_RAFT_VOTER,
    raft.ApiVersionsRequest: apis.API_VERSIONS,
}


def api_of(request: raft.OutboundRequest) -> Api:
    """The Kafka API that carries a request of the core."""
    return _APIS[type(request)]


def to_wire(request: raft.OutboundRequest, version: int) -> Message:
    """The Kafka message for a request of the core."""
    match request:
        case raft.FetchRequest():
            return _fetch(request, version)
        case raft.VoteRequest():
            return _vote(request)
        case raft.BeginQuorumEpochRequest():
            return _begin(request)
        case raft.EndQuorumEpochRequest():
            return _end(request)
        case raft.UpdateVoterRequest():
            return _update(request)
        case raft.ApiVersionsRequest():
            return api_versions_request()


def api_versions_request() -> ApiVersionsRequest:
    """What a client says of itself."""
    return ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="0")


def _fetch(request: raft.FetchRequest, version: int) -> FetchRequest:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=request.current_leader_epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.uuid,
        high_watermark=request.high_watermark,
        answer=request.answer,
    )
    by_id = version >= 13
    replica_id = request.replica.id
    return FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=request.max_bytes,
        topics=(
            FetchTopic(
                topic="" if by_id else METADATA_TOPIC,
                topic_id=METADATA_TOPIC_ID if by_id else None,
                partitions=(partition,),
            ),
        ),
    )


def _vote(request: raft.VoteRequest) -> el.VoteRequest:
    partition = el.VoteRequestPartition(
        partition_index=0,
        replica_epoch=request.candidate_epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.uuid,
        voter_directory_id=request.voter.uuid if request.voter else None,
        last_offset_epoch=request.last_epoch,
        last_offset=request.last_epoch_end_offset,
        pre_vote=request.pre_vote,
    )
    topic = el.VoteRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return el.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id if request.voter else -1,
        topics=(topic,),
    )


def _begin(request: raft.BeginQuorumEpochRequest) -> el.BeginQuorumEpochRequest:
    partition = el.BeginQuorumEpochRequestPartition(
        partition_index=0,
        voter_directory_id=request.voter.uuid if request.voter else None,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
    )
    topic = el.BeginQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return el.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=request.voter.id if request.voter else -1,
        topics=(topic,),
        leader_endpoints=_leader_endpoints(request.leader_endpoint),
    )


def _end(request: raft.EndQuorumEpochRequest) -> el.EndQuorumEpochRequest:
    successors = request.preferred_successors
    partition = el.EndQuorumEpochRequestPartition(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.leader_epoch,
        preferred_successors=tuple(key.id for key in successors),
        preferred_candidates=tuple(
            el.PreferredCandidate(candidate_id=key.id, candidate_directory_id=key.uuid)
            for key in successors
        ),
    )
    topic = el.EndQuorumEpochRequestTopic(topic_name=METADATA_TOPIC, partitions=(partition,))
    return el.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=(topic,),
        leader_endpoints=_leader_endpoints(request.leader_endpoint),
    )


def _leader_endpoints(endpoint: Endpoint | None) -> tuple[el.LeaderEndpoint, ...]:
    if endpoint is None:
        return ()
    return (el.LeaderEndpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port),)


def _update(request: raft.UpdateVoterRequest) -> UpdateRaftVoterRequest:
    return UpdateRaftVoterRequest(
        cluster_id=request.cluster_id,
        current_leader_epoch=request.current_leader_epoch,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.uuid,
        listeners=tuple(
            VoterListener(name=e.name, host=e.host, port=e.port) for e in request.endpoints
        ),
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=request.min_kraft_version,
            max_supported_version=request.max_kraft_version,
        ),
    )


def from_wire(body: Message) -> raft.InboundResponse:
    """The core's response in a Kafka response. Raises MalformedMessage when it holds none."""
    match body:
        case FetchResponse():
            return _fetch_response(body)
        case el.VoteResponse():
            return _vote_response(body)
        case el.BeginQuorumEpochResponse():
            error, leader = _epoch_answer(body)
            return raft.BeginQuorumEpochResponse(error, leader)
        case el.EndQuorumEpochResponse():
            error, leader = _epoch_answer(body)
            return raft.EndQuorumEpochResponse(error, leader)
        case UpdateRaftVoterResponse():
            current = body.current_leader
            endpoint = Endpoint(CONTROLLER, current.host, current.port) if current.host else None
            leader = raft.CurrentLeader(current.leader_id, current.leader_epoch, endpoint)
            return raft.VoterChangeResponse(raft_error(body.error_code), leader)
        case ApiVersionsResponse():
            return _api_versions_response(body)
    raise MalformedMessage(f"no answer for a replica: {type(body).__name__}")


def _fetch_response(body: FetchResponse) -> raft.FetchResponse:
    if body.error_code or not body.responses or not body.responses[0].partitions:
        return raft.FetchResponse(_top_level(body.error_code), _UNKNOWN_LEADER)
    part = body.responses[0].partitions[0]
    leader_id = part.current_leader.leader_id
    endpoint = next(
        (
            Endpoint(CONTROLLER, e.host, e.port)
            for e in body.node_endpoints
            if e.node_id == leader_id
        ),
        None,
    )
    leader = raft.CurrentLeader(leader_id, part.current_leader.leader_epoch, endpoint)
    error, diverging = raft_error(part.error_code), None
    if part.diverging_epoch.end_offset >= 0:
        diverging = raft.DivergingEpoch(part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
        error = RaftError.OFFSET_OUT_OF_RANGE
    return raft.FetchResponse(
        error,
        leader,
        part.high_watermark,
        part.log_start_offset,
        diverging,
        None,
        bytes(part.records) if part.records else b"",
        part.answer,
    )


def _vote_response(body: el.VoteResponse) -> raft.VoteResponse:
    if body.error_code or not body.topics or not body.topics[0].partitions:
        return raft.VoteResponse(_top_level(body.error_code), _UNKNOWN_LEADER)
    part = body.topics[0].partitions[0]
    leader = _leader(part.leader_id, part.leader_epoch, body.node_endpoints)
    return raft.VoteResponse(raft_error(part.error_code), leader, part.vote_granted)


def _epoch_answer(
    body: el.BeginQuorumEpochResponse | el.EndQuorumEpochResponse,
) -> tuple[RaftError, raft.CurrentLeader]:
    if body.error_code or not body.topics or not body.topics[0].partitions:
        return _top_level(body.error_code), _UNKNOWN_LEADER
    part = body.topics[0].partitions[0]
    leader = _leader(part.leader_id, part.leader_epoch, body.node_endpoints)
    return raft_error(part.error_code), leader


def _leader(
    leader_id: int, leader_epoch: int, endpoints: tuple[el.NodeEndpoint, ...]
) -> raft.CurrentLeader:
    endpoint = next(
        (Endpoint(CONTROLLER, e.host, e.port) for e in endpoints if e.node_id == leader_id), None
    )
    return raft.CurrentLeader(leader_id, leader_epoch, endpoint)


_UNKNOWN_LEADER = raft.CurrentLeader(raft.NO_LEADER, -1)


def _top_level(code: int) -> RaftError:
    # No partition in the answer and no error either: nothing that the core could use.
    return raft_error(code) if code else RaftError.INVALID_REQUEST


def _api_versions_response(body: ApiVersionsResponse) -> raft.ApiVersionsResponse:
    for feature in body.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return raft.ApiVersionsResponse(
                raft_error(body.error_code), feature.min_version, feature.max_version
            )
    return raft.ApiVersionsResponse(raft_error(body.error_code), 0, 0)
