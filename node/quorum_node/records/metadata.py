"""Metadata records: the values that the controller's log carries.

Owns the frame (version 0x01, type, version) and the record bodies. Must not know how a record changes state.
Source: KIP-631, "Record format" and the record schemas as shipped in Kafka 4.x.
"""

from dataclasses import dataclass
from uuid import UUID

from quorum_node.records.primitives import (
    INT16,
    MalformedRecord,
    TaggedFields,
    encode_compact_string,
    encode_tagged_fields,
    encode_uvarint,
    read_compact_string,
    read_nullable_compact_string,
    read_struct,
    read_tagged_fields,
    read_uuid,
    read_uvarint,
    uuid_to_bytes,
)

FRAME_VERSION = 1
TOPIC = 2
CONFIG = 4
REMOVE_TOPIC = 9
FEATURE_LEVEL = 12
NO_OP = 20
BEGIN_TRANSACTION = 23
END_TRANSACTION = 24
ABORT_TRANSACTION = 25

TYPE_NAMES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    TOPIC: "TopicRecord",
    3: "PartitionRecord",
    CONFIG: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    REMOVE_TOPIC: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    FEATURE_LEVEL: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    NO_OP: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    BEGIN_TRANSACTION: "BeginTransactionRecord",
    END_TRANSACTION: "EndTransactionRecord",
    ABORT_TRANSACTION: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
}
"""Kafka's names of its record types; a controller of stock Kafka writes all of them."""


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """One config value of one resource; a value of None deletes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord:
    """Finalized level of a feature."""

    name: str
    level: int
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class NoOpRecord:
    """Changes nothing; moves the high watermark."""

    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is created."""

    name: str
    topic_id: UUID
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic is deleted, and its configs with it."""

    topic_id: UUID
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class UnknownMetadata:
    """A record whose type or version this code doesn't know; its payload is kept."""

    type: int
    version: int
    payload: bytes


MetadataRecord = ConfigRecord | FeatureLevelRecord | NoOpRecord | TopicRecord | RemoveTopicRecord

_CONFIG_FRAME = bytes((FRAME_VERSION, CONFIG, 0))
_FEATURE_LEVEL_FRAME = bytes((FRAME_VERSION, FEATURE_LEVEL, 0))
_NO_OP_FRAME = bytes((FRAME_VERSION, NO_OP, 0))
_TOPIC_FRAME = bytes((FRAME_VERSION, TOPIC, 0))
_REMOVE_TOPIC_FRAME = bytes((FRAME_VERSION, REMOVE_TOPIC, 0))


def encode_metadata(record: MetadataRecord | UnknownMetadata) -> bytes:
    """The value bytes of a record in the log."""
    match record:
        case ConfigRecord():
            return b"".join(
                (
                    _CONFIG_FRAME,
                    record.resource_type.to_bytes(1, "big", signed=True),
                    encode_compact_string(record.resource_name),
                    encode_compact_string(record.name),
                    encode_compact_string(record.value),
                    encode_tagged_fields(None, record.tagged_fields),
                )
            )
        case FeatureLevelRecord():
            name, level = encode_compact_string(record.name), INT16.pack(record.level)
            tagged = encode_tagged_fields(None, record.tagged_fields)
            return _FEATURE_LEVEL_FRAME + name + level + tagged
        case NoOpRecord():
            return _NO_OP_FRAME + encode_tagged_fields(None, record.tagged_fields)
        case TopicRecord():
            tagged = encode_tagged_fields(None, record.tagged_fields)
            name, topic_id = encode_compact_string(record.name), uuid_to_bytes(record.topic_id)
            return _TOPIC_FRAME + name + topic_id + tagged
        case RemoveTopicRecord():
            tagged = encode_tagged_fields(None, record.tagged_fields)
            return _REMOVE_TOPIC_FRAME + uuid_to_bytes(record.topic_id) + tagged
        case UnknownMetadata():
            kind, version = encode_uvarint(record.type), encode_uvarint(record.version)
            return bytes((FRAME_VERSION,)) + kind + version + record.payload


def decode_metadata(data: bytes) -> MetadataRecord | UnknownMetadata:
    """A record from its value bytes.

    Raises MalformedRecord on another frame version, or a body that is not of the record's format.
    """
    if not data or data[0] != FRAME_VERSION:
        raise MalformedRecord("not a metadata record frame")
    kind, position = read_uvarint(data, 1)
    version, position = read_uvarint(data, position)
    decoder = _DECODERS.get(kind)
    if decoder is None or version != 0:
        return UnknownMetadata(kind, version, data[position:])
    record, position = decoder(data, position)
    if position != len(data):
        raise MalformedRecord(f"{len(data) - position} bytes after a record of type {kind}")
    return record


def _kept(fields: dict[int, bytes]) -> TaggedFields:
    return tuple(fields.items())


def _decode_config(data: bytes, position: int) -> tuple[MetadataRecord, int]:
    if position >= len(data):
        raise MalformedRecord("a config record without a resource type")
    resource_type = data[position] if data[position] < 0x80 else data[position] - 0x100
    resource_name, position = read_compact_string(data, position + 1)
    name, position = read_compact_string(data, position)
    value, position = read_nullable_compact_string(data, position)
    fields, position = read_tagged_fields(data, position)
    return ConfigRecord(resource_type, resource_name, name, value, _kept(fields)), position


def _decode_feature_level(data: bytes, position: int) -> tuple[MetadataRecord, int]:
    name, position = read_compact_string(data, position)
    level, position = read_struct(INT16, data, position)
    fields, position = read_tagged_fields(data, position)
    return FeatureLevelRecord(name, level, _kept(fields)), position


def _decode_no_op(data: bytes, position: int) -> tuple[MetadataRecord, int]:
    fields, position = read_tagged_fields(data, position)
    return NoOpRecord(_kept(fields)), position


def _decode_topic(data: bytes, position: int) -> tuple[MetadataRecord, int]:
    name, position = read_compact_string(data, position)
    topic_id, position = read_uuid(data, position)
    fields, position = read_tagged_fields(data, position)
    return TopicRecord(name, _present(topic_id), _kept(fields)), position


def _decode_remove_topic(data: bytes, position: int) -> tuple[MetadataRecord, int]:
    topic_id, position = read_uuid(data, position)
    fields, position = read_tagged_fields(data, position)
    return RemoveTopicRecord(_present(topic_id), _kept(fields)), position


def _present(topic_id: UUID | None) -> UUID:
    if topic_id is None:
        raise MalformedRecord("a topic without an id")
    return topic_id


_DECODERS = {
    TOPIC: _decode_topic,
    REMOVE_TOPIC: _decode_remove_topic,
    CONFIG: _decode_config,
    FEATURE_LEVEL: _decode_feature_level,
    NO_OP: _decode_no_op,
}
