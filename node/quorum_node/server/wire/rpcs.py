"""All RPCs of the quorum, by Kafka's request and by the core's. A new RPC is a module in this folder and a row here."""

from collections.abc import Sequence

from quorum_node.protocol import apis
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.raft import messages as raft
from quorum_node.records.identity import KEEPS_TARGET_VOTERS
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.wire.alter_quorum import ALTER_QUORUM
from quorum_node.server.wire.describe import DESCRIBE_QUORUM
from quorum_node.server.wire.discover_brokers import DISCOVER_BROKERS
from quorum_node.server.wire.epochs import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH
from quorum_node.server.wire.errors import raft_error
from quorum_node.server.wire.fetch import FETCH
from quorum_node.server.wire.partitioned_rpc import RaftRpc, SinglePartitionRpc
from quorum_node.server.wire.read_offset import READ_OFFSET
from quorum_node.server.wire.snapshots import FETCH_SNAPSHOT
from quorum_node.server.wire.vote import VOTE
from quorum_node.server.wire.voters import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_RAFT_VOTER

KRAFT_VERSION_FEATURE = "kraft.version"
CLIENT_SOFTWARE = "metadataquorum"


def api_versions_request() -> ApiVersionsRequest:
    """The ApiVersions request that opens a connection."""
    return ApiVersionsRequest(client_software_name=CLIENT_SOFTWARE, client_software_version="0")


def _api_versions_answer(body: ApiVersionsResponse) -> raft.ApiVersionsResponse:
    error = raft_error(body.error_code)
    # A node that serves AlterQuorum supports target voters.
    alters = any(api.api_key == apis.ALTER_QUORUM.key for api in body.api_keys)
    features = KEEPS_TARGET_VOTERS if alters else 0
    for feature in body.supported_features:
        if feature.name == KRAFT_VERSION_FEATURE:
            return raft.ApiVersionsResponse(
                error, feature.min_version, feature.max_version, features
            )
    return raft.ApiVersionsResponse(error, 0, 0, features)


API_VERSIONS = SinglePartitionRpc(
    apis.API_VERSIONS,
    core_request=raft.ApiVersionsRequest,
    request=lambda number, request: api_versions_request(),
    answer_in=_api_versions_answer,
)

RPCS: tuple[RaftRpc, ...] = (
    FETCH,
    FETCH_SNAPSHOT,
    VOTE,
    BEGIN_QUORUM_EPOCH,
    END_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    DISCOVER_BROKERS,
    READ_OFFSET,
    ADD_RAFT_VOTER,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    ALTER_QUORUM,
    API_VERSIONS,
)
_BY_REQUEST: dict[type[Message], RaftRpc] = {rpc.api.request: rpc for rpc in RPCS}
_BY_RESPONSE: dict[type[Message], RaftRpc] = {
    rpc.api.response: rpc for rpc in RPCS if rpc.core_request is not None
}
_BY_CORE_REQUEST: dict[type, RaftRpc] = {
    rpc.core_request: rpc for rpc in RPCS if rpc.core_request is not None
}


def rpc_for(body: Message) -> RaftRpc:
    """The RPC of a Kafka request. Raises KeyError for a request that replicas do not answer."""
    return _BY_REQUEST[type(body)]


def rpc_of(request: raft.OutboundRequest) -> RaftRpc:
    """The RPC that carries a request of the core."""
    return _BY_CORE_REQUEST[type(request)]


def from_wire(body: Message, numbers: Sequence[int]) -> list[raft.InboundResponse]:
    """The core's answers in a Kafka answer, for the partitions `numbers`, in this order.

    Raises MalformedMessage if `body` is not an answer to a request that replicas send.
    """
    rpc = _BY_RESPONSE.get(type(body))
    if rpc is None:
        raise MalformedMessage(f"no answer for a replica: {type(body).__name__}")
    return rpc.from_wire(body, numbers)
