"""CreatePartitions, as shipped (KIP-195)."""

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
class CreatePartitionsAssignment(Message):
    """The replicas of one new partition."""

    broker_ids: tuple[int, ...] = wire(Array(INT32))


@message()
class CreatePartitionsTopic(Message):
    """A topic and its new number of partitions."""

    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: tuple[CreatePartitionsAssignment, ...] | None = wire(
        Array(CreatePartitionsAssignment), nullable_since=0, default=None
    )


@message(flexible_since=2)
class CreatePartitionsRequest(Message):
    """CreatePartitions request."""

    topics: tuple[CreatePartitionsTopic, ...] = wire(Array(CreatePartitionsTopic))
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


@message()
class CreatePartitionsTopicResult(Message):
    """Result for one topic."""

    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message(flexible_since=2)
class CreatePartitionsResponse(Message):
    """CreatePartitions response."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = wire(Array(CreatePartitionsTopicResult))


CREATE_PARTITIONS = Api(
    37, CreatePartitionsRequest, CreatePartitionsResponse, 0, 3, is_forwardable=True
)
