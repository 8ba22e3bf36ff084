"""AssignReplicasToDirs, as shipped (KIP-858): a broker reports the log directories of its replicas."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    INT64,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class PlacedPartition(Message):
    """A partition in the directory."""

    partition_index: int = wire(INT32)


@message()
class PlacedTopic(Message):
    """Partitions of one topic in the directory."""

    topic_id: UUID | None = wire(UUID_TYPE)
    partitions: tuple[PlacedPartition, ...] = wire(Array(PlacedPartition))


@message()
class PlacedDirectory(Message):
    """A directory and its replicas."""

    id: UUID | None = wire(UUID_TYPE)
    topics: tuple[PlacedTopic, ...] = wire(Array(PlacedTopic))


@message(flexible_since=0)
class AssignReplicasToDirsRequest(Message):
    """AssignReplicasToDirs request."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    directories: tuple[PlacedDirectory, ...] = wire(Array(PlacedDirectory))


@message()
class PlacedPartitionResult(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


@message()
class PlacedTopicResult(Message):
    """Result for the partitions of one topic."""

    topic_id: UUID | None = wire(UUID_TYPE)
    partitions: tuple[PlacedPartitionResult, ...] = wire(Array(PlacedPartitionResult))


@message()
class PlacedDirectoryResult(Message):
    """Result for one directory."""

    id: UUID | None = wire(UUID_TYPE)
    topics: tuple[PlacedTopicResult, ...] = wire(Array(PlacedTopicResult))


@message(flexible_since=0)
class AssignReplicasToDirsResponse(Message):
    """AssignReplicasToDirs response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    directories: tuple[PlacedDirectoryResult, ...] = wire(Array(PlacedDirectoryResult), default=())


ASSIGN_REPLICAS_TO_DIRS = Api(73, AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, 0, 0)
