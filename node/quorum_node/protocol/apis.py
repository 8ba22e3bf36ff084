"""The APIs that a node speaks: keys, messages, versions.

Owns the table. Must not know how a request is handled.
Source: Kafka's protocol guide, "API Keys", restricted to what this node serves; what only the drafts have is
from 20000 up, which stock clients pass over in ApiVersions.
"""

from quorum_node.protocol.alter_quorum import AlterQuorumRequest, AlterQuorumResponse
from quorum_node.protocol.api import Api
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.authentication_apis import AUTHENTICATION_APIS
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.describe import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from quorum_node.protocol.discover_brokers import (
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
)
from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.protocol.fetch import FetchRequest, FetchResponse
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from quorum_node.protocol.read_offset import ReadOffsetRequest, ReadOffsetResponse
from quorum_node.protocol.topic_apis import TOPIC_APIS
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

FETCH = Api(1, "Fetch", FetchRequest, FetchResponse, 4, 18)
API_VERSIONS = Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, 0, 4)
DESCRIBE_CONFIGS = Api(32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse, 1, 4)
INCREMENTAL_ALTER_CONFIGS = Api(
    44,
    "IncrementalAlterConfigs",
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    0,
    1,
)
VOTE = Api(52, "Vote", VoteRequest, VoteResponse, 0, 2)
BEGIN_QUORUM_EPOCH = Api(
    53, "BeginQuorumEpoch", BeginQuorumEpochRequest, BeginQuorumEpochResponse, 0, 1
)
END_QUORUM_EPOCH = Api(54, "EndQuorumEpoch", EndQuorumEpochRequest, EndQuorumEpochResponse, 0, 1)
DESCRIBE_QUORUM = Api(55, "DescribeQuorum", DescribeQuorumRequest, DescribeQuorumResponse, 0, 2)
FETCH_SNAPSHOT = Api(59, "FetchSnapshot", FetchSnapshotRequest, FetchSnapshotResponse, 0, 1)
DESCRIBE_CLUSTER = Api(60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse, 0, 2)
ADD_RAFT_VOTER = Api(80, "AddRaftVoter", AddRaftVoterRequest, AddRaftVoterResponse, 0, 1)
REMOVE_RAFT_VOTER = Api(
    81, "RemoveRaftVoter", RemoveRaftVoterRequest, RemoveRaftVoterResponse, 0, 0
)
UPDATE_RAFT_VOTER = Api(
    82, "UpdateRaftVoter", UpdateRaftVoterRequest, UpdateRaftVoterResponse, 0, 0
)
ALTER_QUORUM = Api(20000, "AlterQuorum", AlterQuorumRequest, AlterQuorumResponse, 0, 0)
DISCOVER_BROKERS = Api(
    20001, "DiscoverBrokers", DiscoverBrokersRequest, DiscoverBrokersResponse, 0, 0
)
READ_OFFSET = Api(20002, "ReadOffset", ReadOffsetRequest, ReadOffsetResponse, 0, 0)

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        FETCH,
        API_VERSIONS,
        DESCRIBE_CONFIGS,
        INCREMENTAL_ALTER_CONFIGS,
        VOTE,
        BEGIN_QUORUM_EPOCH,
        END_QUORUM_EPOCH,
        DESCRIBE_QUORUM,
        FETCH_SNAPSHOT,
        DESCRIBE_CLUSTER,
        ADD_RAFT_VOTER,
        REMOVE_RAFT_VOTER,
        UPDATE_RAFT_VOTER,
        *BROKER_APIS,
        *TOPIC_APIS,
        *AUTHENTICATION_APIS,
        ALTER_QUORUM,
        DISCOVER_BROKERS,
        READ_OFFSET,
    )
}
"""Every API by its key. Keys from 20000 up are private: what only the drafts define."""
FEW_ELEMENTS = frozenset(
    api.key
    for api in (
        FETCH,
        API_VERSIONS,
        VOTE,
        BEGIN_QUORUM_EPOCH,
        END_QUORUM_EPOCH,
        DESCRIBE_QUORUM,
        FETCH_SNAPSHOT,
        DESCRIBE_CLUSTER,
        ADD_RAFT_VOTER,
        REMOVE_RAFT_VOTER,
        UPDATE_RAFT_VOTER,
        ALTER_QUORUM,
        DISCOVER_BROKERS,
        READ_OFFSET,
    )
)
"""Keys of the requests that are about the quorum: their arrays name voters, listeners and partitions of it."""
FIRST_PRIVATE_KEY = 20000
FORWARDABLE = frozenset(
    (19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81)
)
"""Keys of the requests that a broker may pass on for a client, in an Envelope (KIP-590)."""
