"""The APIs that a node speaks: keys, messages, versions.

Owns the table. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys", restricted to what this node serves.
"""

from dataclasses import dataclass, field

from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.protocol.schema import Message


@dataclass(frozen=True, slots=True, eq=False)
class Api:
    """One API; both ends of its versions are inclusive."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    min_version: int
    max_version: int
    flexible_since: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "flexible_since", self.request.FLEXIBLE_SINCE)


FETCH = Api(1, "Fetch", FetchRequest, FetchResponse, 4, 18)
API_VERSIONS = Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, 0, 4)
VOTE = Api(52, "Vote", VoteRequest, VoteResponse, 0, 2)
BEGIN_QUORUM_EPOCH = Api(
    53, "BeginQuorumEpoch", BeginQuorumEpochRequest, BeginQuorumEpochResponse, 0, 1
)
END_QUORUM_EPOCH = Api(54, "EndQuorumEpoch", EndQuorumEpochRequest, EndQuorumEpochResponse, 0, 1)

APIS: dict[int, Api] = {
    api.key: api for api in (FETCH, API_VERSIONS, VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH)
}
"""Every API by its key."""
