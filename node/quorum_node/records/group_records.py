"""Records of `__consumer_offsets`: groups and their committed offsets.

Owns their keys and values in the versions that Apache Kafka 4.3 reads and writes. Must not know
their meaning.
A key begins with its type as an INT16, a value with its version. Types that are not listed here
belong to other kinds of groups (KIP-848, KIP-932, KIP-1071) and are read as `OtherGroupKey`.
Source: KIP-211, KIP-320, KIP-345, KIP-915; the record definitions of Kafka's group coordinator.
"""

from dataclasses import dataclass
from struct import Struct
from typing import TypeVar
from uuid import UUID

from quorum_node.records.batches import Record
from quorum_node.schema.codec import decode, encode
from quorum_node.schema.schema import (
    BYTES,
    INT32,
    INT64,
    STRING,
    UUID_TYPE,
    Array,
    MalformedMessage,
    Message,
    message,
    wire,
)

_TYPE = Struct(">h")
_LEGACY_OFFSET = 0
_OFFSET = 1
_GROUP = 2
_OFFSET_VERSION = 4
_OFFSET_VERSION_WITH_EXPIRY = 1
_GROUP_VERSION = 3
_NEWEST = 4
_FIRST_CONSUMER_GROUP_TYPE = 3
NO_EPOCH = -1
NO_TIME = -1


@message()
class OffsetCommitKey(Message):
    """The offset of a group in a partition."""

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


@message(flexible_since=4)
class OffsetCommitValue(Message):
    """The next offset to be read. `expire_timestamp_ms`: set by old clients only, else NO_TIME."""

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=NO_EPOCH, ignorable=True)
    metadata: str = wire(STRING)
    commit_timestamp_ms: int = wire(INT64)
    expire_timestamp_ms: int = wire(INT64, since=1, until=1, default=NO_TIME, ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=4, tag=0, default=None, ignorable=True)


@message()
class GroupMetadataKey(Message):
    """A classic group."""

    group: str = wire(STRING)


@message()
class MemberMetadata(Message):
    """A member; `subscription` is that for the group's protocol. Timeouts in milliseconds."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(
        STRING, since=3, nullable_since=3, default=None, ignorable=True
    )
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1, ignorable=True)
    session_timeout_ms: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@message(flexible_since=4)
class GroupMetadataValue(Message):
    """A generation of a group. `current_state_timestamp_ms`: since when, in milliseconds since 1970."""

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable_since=0)
    leader: str | None = wire(STRING, nullable_since=0)
    current_state_timestamp_ms: int = wire(INT64, since=2, default=NO_TIME, ignorable=True)
    members: tuple[MemberMetadata, ...] = wire(Array(MemberMetadata))


@message()
class OtherGroupKey(Message):
    """The start of the key of another kind of group: all of them begin with the name of the group."""

    group: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """`value`: None for a tombstone."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """`value`: None for a tombstone."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True)
class OtherGroupRecord:
    """A record of another kind of group. `key_type`: type of the record."""

    group: str
    key_type: int
    is_tombstone: bool


GroupLogRecord = OffsetRecord | GroupRecord | OtherGroupRecord


def offset_record(key: OffsetCommitKey, value: OffsetCommitValue | None) -> Record:
    """Encode the record. Offsets with an own expiry need an older version, which has no leader epoch."""
    if value is None:
        return Record(_key(_OFFSET, key), None)
    expires = value.expire_timestamp_ms != NO_TIME
    return Record(
        _key(_OFFSET, key),
        _value(_OFFSET_VERSION_WITH_EXPIRY if expires else _OFFSET_VERSION, value),
    )


def group_record(key: GroupMetadataKey, value: GroupMetadataValue | None) -> Record:
    """Encode the record."""
    return Record(
        _key(_GROUP, key),
        None if value is None else _value(_GROUP_VERSION, value),
    )


def read_group_record(key: bytes, value: bytes | None) -> GroupLogRecord:
    """Decode a record of the log. Raises MalformedMessage."""
    if len(key) < _TYPE.size:
        raise MalformedMessage(f"{len(key)} bytes are not the key of a group record")
    (kind,) = _TYPE.unpack_from(key)
    body = key[_TYPE.size :]
    if kind in (_LEGACY_OFFSET, _OFFSET):
        return OffsetRecord(decode(OffsetCommitKey, 0, body), _read_value(OffsetCommitValue, value))
    if kind == _GROUP:
        return GroupRecord(
            decode(GroupMetadataKey, 0, body), _read_value(GroupMetadataValue, value)
        )
    if kind < _FIRST_CONSUMER_GROUP_TYPE:
        raise MalformedMessage(f"key of type {kind}")
    return OtherGroupRecord(_name_in(body), kind, value is None)


_M = TypeVar("_M", bound=Message)


def _read_value(cls: type[_M], value: bytes | None) -> _M | None:
    if value is None:
        return None
    if len(value) < _TYPE.size:
        raise MalformedMessage(f"{len(value)} bytes are not the value of a group record")
    (version,) = _TYPE.unpack_from(value)
    # A later version only adds tagged fields (KIP-915).
    if version < 0:
        raise MalformedMessage(f"value of version {version}")
    return decode(cls, min(version, _NEWEST), value[_TYPE.size :])


def _key(kind: int, key: Message) -> bytes:
    return _TYPE.pack(kind) + encode(key, 0)


def _value(version: int, value: Message) -> bytes:
    return _TYPE.pack(version) + encode(value, version)


def _name_in(body: bytes) -> str:
    (size,) = _TYPE.unpack_from(body) if len(body) >= _TYPE.size else (-1,)
    name = body[_TYPE.size : _TYPE.size + size]
    if size < 0 or len(name) != size:
        raise MalformedMessage("the key of a group record has no name")
    return decode(OtherGroupKey, 0, body[: _TYPE.size + size]).group
