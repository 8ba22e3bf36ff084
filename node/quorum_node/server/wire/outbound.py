"""The core's own requests as Kafka's messages, and the peers' answers back into the core's.

The reverse of `inbound`. What several partitions send to one peer at the same time travels in one
message if the fields that stand in it once are equal (K595-31); the answer is taken apart again.
Knows no connections: the caller gives the version that it negotiated.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from quorum_node.protocol import apis
from quorum_node.protocol import elections as el
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.discover_brokers import DiscoverBrokersResponse
from quorum_node.protocol.fetch import FetchResponse
from quorum_node.protocol.fetch_snapshot import FetchSnapshotResponse
from quorum_node.protocol.read_offset import ReadOffsetResponse
from quorum_node.protocol.voters import AddRaftVoterResponse, UpdateRaftVoterResponse
from quorum_node.raft import messages as raft
from quorum_node.records.identity import KEEPS_TARGET_VOTERS
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.wire.discover_brokers import discover_answer, discover_request
from quorum_node.server.wire.epochs import begin_answers, begin_request, end_answers, end_request
from quorum_node.server.wire.errors import raft_error
from quorum_node.server.wire.fetch import fetch_answers, fetch_request
from quorum_node.server.wire.read_offset import read_offset_answer, read_offset_request
from quorum_node.server.wire.snapshots import fetch_snapshot_answer, fetch_snapshot_request
from quorum_node.server.wire.vote import vote_answers, vote_request
from quorum_node.server.wire.voters import (
    add_voter_answer,
    add_voter_request,
    update_voter_answer,
    update_voter_request,
)

KRAFT_VERSION_FEATURE = "kraft.version"
CLIENT_SOFTWARE = "metadataquorum"

_APIS: dict[type, Api] = {
    raft.VoteRequest: apis.VOTE,
    raft.BeginQuorumEpochRequest: apis.BEGIN_QUORUM_EPOCH,
    raft.EndQuorumEpochRequest: apis.END_QUORUM_EPOCH,
    raft.FetchRequest: apis.FETCH,
    raft.FetchSnapshotRequest: apis.FETCH_SNAPSHOT,
    raft.DiscoverBrokersRequest: apis.DISCOVER_BROKERS,
    raft.ReadOffsetRequest: apis.READ_OFFSET,
    raft.AddVoterRequest: apis.ADD_RAFT_VOTER,
    raft.UpdateVoterRequest: apis.UPDATE_RAFT_VOTER,
    raft.ApiVersionsRequest: apis.API_VERSIONS,
}

Parts = Sequence[tuple[int, Any]]
"""(partition, request of the core), the requests all of one type."""


def api_of(request: raft.OutboundRequest) -> Api:
    """The Kafka API that carries a request of the core."""
    return _APIS[type(request)]


def shared_fields(request: raft.OutboundRequest) -> Hashable | None:
    """Requests of different partitions with equal ones fit into one message; None: never."""
    match request:
        case raft.FetchRequest():
            return "fetch", request.cluster_id, request.replica.id, request.max_wait_ms
        case raft.VoteRequest():
            voter_id = request.voter and request.voter.id
            return "vote", request.cluster_id, voter_id, request.pre_vote
        case raft.BeginQuorumEpochRequest():
            voter_id = request.voter and request.voter.id
            return "begin", request.cluster_id, voter_id, request.leader_endpoint
        case raft.EndQuorumEpochRequest():
            return "end", request.cluster_id, request.leader_endpoint
    return None


def to_wire(parts: Parts, version: int) -> Message:
    """The Kafka message for requests of the core that have equal `shared_fields`."""
    match parts[0][1]:
        case raft.FetchRequest():
            return fetch_request(parts, version)
        case raft.FetchSnapshotRequest() as request:
            return fetch_snapshot_request(parts[0][0], request)
        case raft.VoteRequest():
            return vote_request(parts)
        case raft.BeginQuorumEpochRequest():
            return begin_request(parts)
        case raft.EndQuorumEpochRequest():
            return end_request(parts)
        case raft.DiscoverBrokersRequest() as request:
            return discover_request(parts[0][0], request)
        case raft.ReadOffsetRequest() as request:
            return read_offset_request(parts[0][0], request)
        case raft.AddVoterRequest() as request:
            return add_voter_request(parts[0][0], request)
        case raft.UpdateVoterRequest() as request:
            return update_voter_request(parts[0][0], request)
        case raft.ApiVersionsRequest():
            return api_versions_request()
    raise AssertionError(f"nothing that a replica sends: {type(parts[0][1]).__name__}")


def can_carry(parts: Parts, version: int) -> bool:
    """Whether that version has a place for what is asked."""
    match parts[0][1]:
        case raft.VoteRequest(pre_vote=True):
            return version >= 2  # K650-02
        case raft.AddVoterRequest(ack_when_committed=False):
            return version >= 1
    return True


def api_versions_request() -> ApiVersionsRequest:
    """What a client says of itself."""
    return ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="0")


def from_wire(body: Message, numbers: Sequence[int]) -> list[raft.InboundResponse]:
    """The core's responses in a Kafka response, for partitions `numbers`, in this order.

    Raises MalformedMessage when it is none that a replica asks for.
    """
    match body:
        case FetchResponse():
            return fetch_answers(body, numbers)
        case FetchSnapshotResponse():
            return [fetch_snapshot_answer(body, numbers[0])]
        case el.VoteResponse():
            return vote_answers(body, numbers)
        case el.BeginQuorumEpochResponse():
            return begin_answers(body, numbers)
        case el.EndQuorumEpochResponse():
            return end_answers(body, numbers)
        case DiscoverBrokersResponse():
            return [discover_answer(body)]
        case ReadOffsetResponse():
            return [read_offset_answer(body, numbers[0])]
        case AddRaftVoterResponse():
            return [add_voter_answer(body)]
        case UpdateRaftVoterResponse():
            return [update_voter_answer(body)]
        case ApiVersionsResponse():
            return [_api_versions_answer(body)]
    raise MalformedMessage(f"no answer for a replica: {type(body).__name__}")


def _api_versions_answer(body: ApiVersionsResponse) -> raft.ApiVersionsResponse:
    error = raft_error(body.error_code)
    # Whoever serves AlterQuorum knows what target voters are.
    alters = any(api.api_key == apis.ALTER_QUORUM.key for api in body.api_keys)
    features = KEEPS_TARGET_VOTERS if alters else 0
    for feature in body.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return raft.ApiVersionsResponse(
                error, feature.min_version, feature.max_version, features
            )
    return raft.ApiVersionsResponse(error, 0, 0, features)
