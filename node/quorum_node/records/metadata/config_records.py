"""Records of configs, client quotas, finalized features and producer ids, and the no-op record.

Owns declarations only. Source: KIP-631, as shipped in Kafka 4.3.
"""

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import (
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@metadata_record(number=4)
class ConfigRecord(MetadataMessage):
    """One config value of one resource; a value of None deletes it."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=0)


@metadata_record(number=12)
class FeatureLevelRecord(MetadataMessage):
    """Finalized level of a feature; 0: none."""

    name: str = wire(STRING)
    feature_level: int = wire(INT16)


@message()
class QuotaEntity(Message):
    """One part of an entity; without a name: the default of that type."""

    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0)


@metadata_record(number=14)
class ClientQuotaRecord(MetadataMessage):
    """One quota of one entity; with `remove` the value is ignored."""

    entity: tuple[QuotaEntity, ...] = wire(Array(QuotaEntity))
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL, default=False)


@metadata_record(number=15)
class ProducerIdsRecord(MetadataMessage):
    """A block of producer ids was allocated to a broker; the next block begins at `next_producer_id`."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64)
    next_producer_id: int = wire(INT64)


@metadata_record(number=20)
class NoOpRecord(MetadataMessage):
    """Changes nothing; moves the high watermark."""


@metadata_record(number=21)
class ZkMigrationStateRecord(MetadataMessage):
    """From migrations from ZooKeeper; Kafka 4 reads and ignores it."""

    zk_migration_state: int = wire(INT8)
