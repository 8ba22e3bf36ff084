"""OffsetFetch: committed offsets of groups (as shipped in 4.3; KIP-447, KIP-709, KIP-848)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class OffsetFetchTopic(Message):
    """Partitions of a topic, below version 8."""

    name: str = wire(STRING, until=7, default="")
    partition_indexes: tuple[int, ...] = wire(Array(INT32), until=7, default=())


@message()
class FetchedTopic(Message):
    """Partitions of a topic: by name below version 10, by id from there on."""

    name: str = wire(STRING, since=8, until=9, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    partition_indexes: tuple[int, ...] = wire(Array(INT32), since=8, default=())


@message()
class FetchedGroup(Message):
    """A group; `topics` of None means all."""

    group_id: str = wire(STRING, since=8, default="")
    member_id: str | None = wire(STRING, since=9, nullable_since=9, default=None, ignorable=True)
    member_epoch: int = wire(INT32, since=9, default=-1, ignorable=True)
    topics: tuple[FetchedTopic, ...] | None = wire(
        Array(FetchedTopic), since=8, nullable_since=8, default=()
    )


@message(flexible_since=6)
class OffsetFetchRequest(Message):
    """OffsetFetch request: one group below version 8, many from there on."""

    group_id: str = wire(STRING, until=7, default="")
    topics: tuple[OffsetFetchTopic, ...] | None = wire(
        Array(OffsetFetchTopic), until=7, nullable_since=2, default=()
    )
    groups: tuple[FetchedGroup, ...] = wire(Array(FetchedGroup), since=8, default=())
    require_stable: bool = wire(BOOL, since=7, default=False)


@message()
class OffsetFetchPartitionResponse(Message):
    """Result for one partition, below version 8; offset -1: nothing is committed."""

    partition_index: int = wire(INT32, until=7, default=0)
    committed_offset: int = wire(INT64, until=7, default=0)
    committed_leader_epoch: int = wire(INT32, since=5, until=7, default=-1, ignorable=True)
    metadata: str | None = wire(STRING, until=7, nullable_since=0, default="")
    error_code: int = wire(INT16, until=7, default=0)


@message()
class OffsetFetchTopicResponse(Message):
    """Results for one topic, below version 8."""

    name: str = wire(STRING, until=7, default="")
    partitions: tuple[OffsetFetchPartitionResponse, ...] = wire(
        Array(OffsetFetchPartitionResponse), until=7, default=()
    )


@message()
class FetchedPartitionResponse(Message):
    """Result for one partition; offset -1: nothing is committed."""

    partition_index: int = wire(INT32, since=8, default=0)
    committed_offset: int = wire(INT64, since=8, default=0)
    committed_leader_epoch: int = wire(INT32, since=8, default=-1, ignorable=True)
    metadata: str | None = wire(STRING, since=8, nullable_since=8, default="")
    error_code: int = wire(INT16, since=8, default=0)


@message()
class FetchedTopicResponse(Message):
    """Results for one topic."""

    name: str = wire(STRING, since=8, until=9, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    partitions: tuple[FetchedPartitionResponse, ...] = wire(
        Array(FetchedPartitionResponse), since=8, default=()
    )


@message()
class FetchedGroupResponse(Message):
    """Results for one group."""

    group_id: str = wire(STRING, since=8, default="")
    topics: tuple[FetchedTopicResponse, ...] = wire(
        Array(FetchedTopicResponse), since=8, default=()
    )
    error_code: int = wire(INT16, since=8, default=0)


@message(flexible_since=6)
class OffsetFetchResponse(Message):
    """OffsetFetch response."""

    throttle_time_ms: int = wire(INT32, since=3, default=0, ignorable=True)
    topics: tuple[OffsetFetchTopicResponse, ...] = wire(
        Array(OffsetFetchTopicResponse), until=7, default=()
    )
    error_code: int = wire(INT16, since=2, until=7, default=0, ignorable=True)
    groups: tuple[FetchedGroupResponse, ...] = wire(
        Array(FetchedGroupResponse), since=8, default=()
    )


OFFSET_FETCH = Api(9, OffsetFetchRequest, OffsetFetchResponse, 1, 10)
