"""AlterPartitionReassignments and ListPartitionReassignments, as shipped (KIP-455, KIP-860)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class ReassignablePartition(Message):
    """New replicas of a partition; null cancels its reassignment."""

    partition_index: int = wire(INT32)
    replicas: tuple[int, ...] | None = wire(Array(INT32), nullable_since=0, default=None)


@message()
class ReassignableTopic(Message):
    """Partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ReassignablePartition, ...] = wire(Array(ReassignablePartition))


@message(flexible_since=0)
class AlterPartitionReassignmentsRequest(Message):
    """AlterPartitionReassignments request."""

    timeout_ms: int = wire(INT32, default=60_000)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    topics: tuple[ReassignableTopic, ...] = wire(Array(ReassignableTopic))


@message()
class ReassignablePartitionResponse(Message):
    """Result for one partition."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message()
class ReassignableTopicResponse(Message):
    """Result for the partitions of one topic."""

    name: str = wire(STRING)
    partitions: tuple[ReassignablePartitionResponse, ...] = wire(
        Array(ReassignablePartitionResponse)
    )


@message(flexible_since=0)
class AlterPartitionReassignmentsResponse(Message):
    """AlterPartitionReassignments response."""

    throttle_time_ms: int = wire(INT32, default=0)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True, ignorable=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    responses: tuple[ReassignableTopicResponse, ...] = wire(
        Array(ReassignableTopicResponse), default=()
    )


@message()
class ListedTopic(Message):
    """Requested partitions of one topic."""

    name: str = wire(STRING)
    partition_indexes: tuple[int, ...] = wire(Array(INT32))


@message(flexible_since=0)
class ListPartitionReassignmentsRequest(Message):
    """ListPartitionReassignments request; null means all."""

    timeout_ms: int = wire(INT32, default=60_000)
    topics: tuple[ListedTopic, ...] | None = wire(
        Array(ListedTopic), nullable_since=0, default=None
    )


@message()
class OngoingPartitionReassignment(Message):
    """A partition in reassignment."""

    partition_index: int = wire(INT32)
    replicas: tuple[int, ...] = wire(Array(INT32))
    adding_replicas: tuple[int, ...] = wire(Array(INT32))
    removing_replicas: tuple[int, ...] = wire(Array(INT32))


@message()
class OngoingTopicReassignment(Message):
    """Partitions of one topic in reassignment."""

    name: str = wire(STRING)
    partitions: tuple[OngoingPartitionReassignment, ...] = wire(Array(OngoingPartitionReassignment))


@message(flexible_since=0)
class ListPartitionReassignmentsResponse(Message):
    """ListPartitionReassignments response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    topics: tuple[OngoingTopicReassignment, ...] = wire(Array(OngoingTopicReassignment), default=())


ALTER_PARTITION_REASSIGNMENTS = Api(
    45,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    0,
    1,
    is_forwardable=True,
)
LIST_PARTITION_REASSIGNMENTS = Api(
    46,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    0,
    0,
    is_forwardable=True,
)
