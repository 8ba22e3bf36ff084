"""OffsetCommit: commits offsets of a group (as shipped in 4.3; KIP-211, KIP-320, KIP-848)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
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
class CommittedPartition(Message):
    """The next offset that the group will read."""

    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1, ignorable=True)
    committed_metadata: str | None = wire(STRING, nullable_since=0)


@message()
class CommittedTopic(Message):
    """A topic: by name below version 10, by id from there on."""

    name: str = wire(STRING, until=9, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    partitions: tuple[CommittedPartition, ...] = wire(Array(CommittedPartition))


@message(flexible_since=8)
class OffsetCommitRequest(Message):
    """OffsetCommit request; without a member it comes from an administrator or from a consumer that assigns its partitions itself."""

    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, default=-1, ignorable=True)
    member_id: str = wire(STRING, ignorable=True)
    group_instance_id: str | None = wire(STRING, since=7, nullable_since=7, default=None)
    retention_time_ms: int = wire(INT64, until=4, default=-1, ignorable=True)
    topics: tuple[CommittedTopic, ...] = wire(Array(CommittedTopic))


@message()
class OffsetCommitPartitionResponse(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@message()
class OffsetCommitTopicResponse(Message):
    """Results for one topic."""

    name: str = wire(STRING, until=9, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    partitions: tuple[OffsetCommitPartitionResponse, ...] = wire(
        Array(OffsetCommitPartitionResponse)
    )


@message(flexible_since=8)
class OffsetCommitResponse(Message):
    """OffsetCommit response."""

    throttle_time_ms: int = wire(INT32, since=3, default=0, ignorable=True)
    topics: tuple[OffsetCommitTopicResponse, ...] = wire(Array(OffsetCommitTopicResponse))


OFFSET_COMMIT = Api(8, OffsetCommitRequest, OffsetCommitResponse, 2, 10)
