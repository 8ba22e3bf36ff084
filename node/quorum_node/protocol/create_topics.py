"""CreateTopics, as shipped (KIP-4, KIP-464, KIP-525)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

BROKERS_DEFAULT = -1
"""Number of partitions or replication factor that means the controller's default."""


@message()
class CreatableReplicaAssignment(Message):
    """The replicas of one partition, chosen by the caller."""

    partition_index: int = wire(INT32)
    broker_ids: tuple[int, ...] = wire(Array(INT32))


@message()
class CreatableTopicConfig(Message):
    """An initial config of the topic."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)


@message()
class CreatableTopic(Message):
    """A topic to create, by numbers or by assignments."""

    name: str = wire(STRING)
    num_partitions: int = wire(INT32, default=BROKERS_DEFAULT)
    replication_factor: int = wire(INT16, default=BROKERS_DEFAULT)
    assignments: tuple[CreatableReplicaAssignment, ...] = wire(
        Array(CreatableReplicaAssignment), default=()
    )
    configs: tuple[CreatableTopicConfig, ...] = wire(Array(CreatableTopicConfig), default=())


@message(flexible_since=5)
class CreateTopicsRequest(Message):
    """CreateTopics request."""

    topics: tuple[CreatableTopic, ...] = wire(Array(CreatableTopic))
    timeout_ms: int = wire(INT32, default=60_000)
    validate_only: bool = wire(BOOL, since=1, default=False)


@message()
class CreatableTopicConfigs(Message):
    """An effective config of the new topic."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)


@message()
class CreatableTopicResult(Message):
    """Result for one topic."""

    name: str = wire(STRING)
    topic_id: UUID | None = wire(UUID_TYPE, since=7, default=None, ignorable=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(
        STRING, since=1, nullable_since=0, default=None, ignorable=True
    )
    topic_config_error_code: int = wire(INT16, since=5, tag=0, default=0, ignorable=True)
    num_partitions: int = wire(INT32, since=5, default=-1, ignorable=True)
    replication_factor: int = wire(INT16, since=5, default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = wire(
        Array(CreatableTopicConfigs), since=5, nullable_since=5, default=(), ignorable=True
    )


@message(flexible_since=5)
class CreateTopicsResponse(Message):
    """CreateTopics response."""

    throttle_time_ms: int = wire(INT32, since=2, default=0, ignorable=True)
    topics: tuple[CreatableTopicResult, ...] = wire(Array(CreatableTopicResult))


CREATE_TOPICS = Api(19, CreateTopicsRequest, CreateTopicsResponse, 2, 7, is_forwardable=True)
