"""Makes refusals of requests before they reach a replica, in the form of each API's answer.

Owns the APIs that the controller does not serve. The forms are those of stock Kafka: most have only a top-level error. Fetch with topic
names has the error for every partition as well, AlterQuorum only for every partition.
"""

from collections.abc import Callable
from typing import Any

from quorum_node.protocol.alter_quorum import AlterQuorumRequest
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from quorum_node.protocol.describe import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from quorum_node.protocol.discover_brokers import DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum_node.protocol.elections import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
)
from quorum_node.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from quorum_node.protocol.read_offset import ReadOffsetRequest, ReadOffsetResponse
from quorum_node.protocol.voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from quorum_node.schema.schema import Message
from quorum_node.server.wire.alter_quorum import refuse_alter_quorum

_Refusal = Callable[[Any, ErrorCode, str], Message]


def refuse_request(body: Message, error: ErrorCode, text: str) -> Message:
    """The answer that refuses the request. `text` is included if the API has a field for it."""
    return _REFUSALS[type(body)](body, error, text)


def _fetch(body: FetchRequest, error: ErrorCode, text: str) -> Message:
    if any(topic.topic_id is not None for topic in body.topics):  # versions with a top-level error
        return FetchResponse(error_code=error, session_id=body.session_id, responses=())
    return FetchResponse(
        error_code=error,
        session_id=body.session_id,
        responses=tuple(
            FetchResponseTopic(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=tuple(
                    FetchResponsePartition(
                        partition_index=part.partition, error_code=error, high_watermark=-1
                    )
                    for part in topic.partitions
                ),
            )
            for topic in body.topics
        ),
    )


def _describe_configs(body: DescribeConfigsRequest, error: ErrorCode, text: str) -> Message:
    results = tuple(
        DescribeConfigsResult(
            error_code=error,
            error_message=text,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            configs=(),
        )
        for each in body.resources
    )
    return DescribeConfigsResponse(results=results)


_REFUSALS: dict[type[Message], _Refusal] = {
    FetchRequest: _fetch,
    FetchSnapshotRequest: lambda _, error, text: FetchSnapshotResponse(error_code=error, topics=()),
    VoteRequest: lambda _, error, text: VoteResponse(error_code=error, topics=()),
    BeginQuorumEpochRequest: lambda _, error, text: BeginQuorumEpochResponse(
        error_code=error, topics=()
    ),
    EndQuorumEpochRequest: lambda _, error, text: EndQuorumEpochResponse(
        error_code=error, topics=()
    ),
    DescribeQuorumRequest: lambda _, error, text: DescribeQuorumResponse(
        error_code=error, error_message=text, topics=()
    ),
    DescribeClusterRequest: lambda body, error, text: DescribeClusterResponse(
        error_code=error, error_message=text, cluster_id="", brokers=()
    ),
    DescribeConfigsRequest: _describe_configs,
    EnvelopeRequest: lambda _, error, text: EnvelopeResponse(error_code=error),
    AddRaftVoterRequest: lambda _, error, text: AddRaftVoterResponse(
        error_code=error, error_message=text
    ),
    RemoveRaftVoterRequest: lambda _, error, text: RemoveRaftVoterResponse(
        error_code=error, error_message=text
    ),
    UpdateRaftVoterRequest: lambda _, error, text: UpdateRaftVoterResponse(error_code=error),
    AlterQuorumRequest: lambda body, error, text: refuse_alter_quorum(body, error),
    DiscoverBrokersRequest: lambda _, error, text: DiscoverBrokersResponse(
        error_code=error, brokers=()
    ),
    ReadOffsetRequest: lambda _, error, text: ReadOffsetResponse(error_code=error, topics=()),
}
