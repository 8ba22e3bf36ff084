"""Records of nodes: registrations of brokers and controllers, and their changes.

Owns declarations only. Source: KIP-631, "Broker records", as shipped in Kafka 4.3 (KIP-858:
directories; KIP-919: controllers; KIP-1066: cordoned directories).
"""

from uuid import UUID

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import (
    ANY_UUID,
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    Array,
    Message,
    message,
    wire,
)


@message()
class NodeEndpoint(Message):
    """Address of a listener of a node; `security_protocol` is Kafka's number (0: plaintext)."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


@message()
class SupportedFeature(Message):
    """The levels of a feature that a node supports."""

    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


@metadata_record(number=0, highest_version=4)
class RegisterBrokerRecord(MetadataMessage):
    """Registration of a broker process; `broker_epoch` is the offset of its first such record."""

    broker_id: int = wire(INT32)
    is_migrating_zk_broker: bool = wire(BOOL, since=2, default=False)
    incarnation_id: UUID = wire(ANY_UUID)
    broker_epoch: int = wire(INT64)
    end_points: tuple[NodeEndpoint, ...] = wire(Array(NodeEndpoint))
    features: tuple[SupportedFeature, ...] = wire(Array(SupportedFeature))
    rack: str | None = wire(STRING, nullable_since=0)
    fenced: bool = wire(BOOL, default=True)
    in_controlled_shutdown: bool = wire(BOOL, since=1, default=False)
    log_dirs: tuple[UUID, ...] = wire(Array(ANY_UUID), since=3, tag=0, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = wire(
        Array(ANY_UUID), since=4, tag=1, nullable_since=4, default=None
    )


@metadata_record(number=1)
class UnregisterBrokerRecord(MetadataMessage):
    """A broker was unregistered."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)


@metadata_record(number=7)
class FenceBrokerRecord(MetadataMessage):
    """Replaced by BrokerRegistrationChangeRecord; stock Kafka does not write it any more."""

    id: int = wire(INT32)
    epoch: int = wire(INT64)


@metadata_record(number=8)
class UnfenceBrokerRecord(MetadataMessage):
    """Replaced by BrokerRegistrationChangeRecord; stock Kafka does not write it any more."""

    id: int = wire(INT32)
    epoch: int = wire(INT64)


@metadata_record(number=17, highest_version=3)
class BrokerRegistrationChangeRecord(MetadataMessage):
    """Changes of a registration: 0, an empty list or None leaves a field unchanged.

    `fenced`: 1 fences, -1 unfences. `in_controlled_shutdown`: 1 begins it.
    """

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)
    fenced: int = wire(INT8, tag=0, default=0)
    in_controlled_shutdown: int = wire(INT8, since=1, tag=1, default=0)
    log_dirs: tuple[UUID, ...] = wire(Array(ANY_UUID), since=2, tag=2, default=())
    cordoned_log_dirs: tuple[UUID, ...] | None = wire(
        Array(ANY_UUID), since=3, tag=3, nullable_since=3, default=None
    )


@metadata_record(number=27)
class RegisterControllerRecord(MetadataMessage):
    """Registration of a controller process with the active controller."""

    controller_id: int = wire(INT32)
    incarnation_id: UUID = wire(ANY_UUID)
    zk_migration_ready: bool = wire(BOOL, default=False)
    end_points: tuple[NodeEndpoint, ...] = wire(Array(NodeEndpoint))
    features: tuple[SupportedFeature, ...] = wire(Array(SupportedFeature))
