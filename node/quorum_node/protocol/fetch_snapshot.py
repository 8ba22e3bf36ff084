"""FetchSnapshot: download of a snapshot in parts (KIP-630; KIP-853; as shipped, 0-1).

Private tagged field 20000 `checksum` of a response has the CRC-32C of the whole snapshot; stock
peers ignore it.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.elections import NodeEndpoint
from quorum_node.protocol.fetch import LeaderIdAndEpoch
from quorum_node.schema.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

TAG_CHECKSUM = 20000
NO_CHECKSUM = -1


@message()
class SnapshotIdentity(Message):
    """Which snapshot."""

    end_offset: int = wire(INT64)
    epoch: int = wire(INT32)


@message()
class FetchSnapshotPartition(Message):
    """Requested part of a partition's snapshot."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32)
    snapshot_id: SnapshotIdentity = wire(SnapshotIdentity)
    position: int = wire(INT64)
    replica_directory_id: UUID | None = wire(
        UUID_TYPE, since=1, tag=0, default=None, ignorable=True
    )


@message()
class FetchSnapshotTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[FetchSnapshotPartition, ...] = wire(Array(FetchSnapshotPartition))


@message(flexible_since=0)
class FetchSnapshotRequest(Message):
    """FetchSnapshot request."""

    cluster_id: str | None = wire(STRING, tag=0, nullable_since=0, default=None, ignorable=True)
    replica_id: int = wire(INT32, default=-1)
    max_bytes: int = wire(INT32, default=0x7FFFFFFF)
    topics: tuple[FetchSnapshotTopic, ...] = wire(Array(FetchSnapshotTopic))


NO_LEADER = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)
"""Value of an absent tag: the schema defines no defaults for these fields, so they are 0."""


@message()
class FetchSnapshotResponsePartition(Message):
    """A part; `unaligned_records` can begin and end in the middle of a batch, decoded as a view."""

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    snapshot_id: SnapshotIdentity = wire(SnapshotIdentity)
    current_leader: LeaderIdAndEpoch = wire(
        LeaderIdAndEpoch, tag=0, default=NO_LEADER, ignorable=True
    )
    size: int = wire(INT64)
    position: int = wire(INT64)
    unaligned_records: bytes | memoryview = wire(RECORDS)
    checksum: int = wire(INT64, tag=TAG_CHECKSUM, default=NO_CHECKSUM, ignorable=True)


@message()
class FetchSnapshotResponseTopic(Message):
    """Results for one topic."""

    name: str = wire(STRING)
    partitions: tuple[FetchSnapshotResponsePartition, ...] = wire(
        Array(FetchSnapshotResponsePartition)
    )


@message(flexible_since=0)
class FetchSnapshotResponse(Message):
    """FetchSnapshot response."""

    throttle_time_ms: int = wire(INT32, default=0, ignorable=True)
    error_code: int = wire(INT16, default=0)
    topics: tuple[FetchSnapshotResponseTopic, ...] = wire(Array(FetchSnapshotResponseTopic))
    node_endpoints: tuple[NodeEndpoint, ...] = wire(
        Array(NodeEndpoint), since=1, tag=0, default=(), ignorable=True
    )


FETCH_SNAPSHOT = Api(59, FetchSnapshotRequest, FetchSnapshotResponse, 0, 1, is_about_quorum=True)
