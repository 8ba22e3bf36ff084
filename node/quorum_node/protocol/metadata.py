"""Metadata: brokers, topics and leaders of partitions (as shipped in 4.3, versions 0-13)."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.describe import NO_AUTHORIZED_OPERATIONS
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)


@message()
class MetadataRequestTopic(Message):
    """A topic by name, or by id where the name is null."""

    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    name: str | None = wire(STRING, nullable_since=10)


@message(flexible_since=9)
class MetadataRequest(Message):
    """Metadata request; `topics`: null means all; in version 0 an empty array does."""

    topics: tuple[MetadataRequestTopic, ...] | None = wire(
        Array(MetadataRequestTopic), nullable_since=1
    )
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True, ignorable=True)
    include_cluster_authorized_operations: bool = wire(
        BOOL, since=8, until=10, default=False, ignorable=True
    )
    include_topic_authorized_operations: bool = wire(BOOL, since=8, default=False, ignorable=True)


@message()
class MetadataBroker(Message):
    """An active broker, with its address on the caller's listener."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, since=1, nullable_since=1, default=None, ignorable=True)


@message()
class MetadataPartition(Message):
    """One partition."""

    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1, ignorable=True)
    replica_nodes: tuple[int, ...] = wire(Array(INT32))
    isr_nodes: tuple[int, ...] = wire(Array(INT32))
    offline_replicas: tuple[int, ...] = wire(Array(INT32), since=5, default=(), ignorable=True)


@message()
class MetadataTopic(Message):
    """One topic."""

    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=12)
    topic_id: UUID | None = wire(UUID_TYPE, since=10, default=None, ignorable=True)
    is_internal: bool = wire(BOOL, since=1, default=False, ignorable=True)
    partitions: tuple[MetadataPartition, ...] = wire(Array(MetadataPartition))
    topic_authorized_operations: int = wire(
        INT32, since=8, default=NO_AUTHORIZED_OPERATIONS, ignorable=True
    )


@message(flexible_since=9)
class MetadataResponse(Message):
    """Metadata response; `controller_id` is any broker: clients send it their requests for the controller."""

    throttle_time_ms: int = wire(INT32, since=3, default=0, ignorable=True)
    brokers: tuple[MetadataBroker, ...] = wire(Array(MetadataBroker))
    cluster_id: str | None = wire(STRING, since=2, nullable_since=2, default=None, ignorable=True)
    controller_id: int = wire(INT32, since=1, default=-1, ignorable=True)
    topics: tuple[MetadataTopic, ...] = wire(Array(MetadataTopic))
    cluster_authorized_operations: int = wire(
        INT32, since=8, until=10, default=NO_AUTHORIZED_OPERATIONS, ignorable=True
    )
    error_code: int = wire(INT16, since=13, default=0, ignorable=True)


METADATA = Api(3, MetadataRequest, MetadataResponse, 0, 13, ignores_rest=True)
"""librdkafka 2.16 sends three bytes too many if it asks for all topics."""
