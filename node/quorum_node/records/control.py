"""Control records of the metadata log: leader changes, kraft.version, voter sets, snapshot bounds.

Owns their bytes. Must not know when they take effect.
Source: KIP-595, "LeaderChangeMessage"; KIP-630, "Snapshot"; KIP-853, "Control records"; as shipped
in Kafka 4.x.

Our additions are private tagged fields: cluster id, tombstones and target voters in the voters
record, features of a voter in its entry, replica UUIDs in a leader change. Java readers skip
unknown tagged fields, but fail on an unknown record type.
Shipped Kafka defines version 1 of LeaderChangeMessage, with directory ids, but reads every leader
change as version 0 and fails on version 1. So version 0 is written, and both are read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct

from quorum_node.records.batches import DecodedRecord, Record
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, replica_key
from quorum_node.schema.primitives import (
    INT16,
    INT32,
    INT64,
    MalformedRecord,
    TaggedFields,
    encode_compact_string,
    encode_tagged_fields,
    encode_uvarint,
    read_array_length,
    read_compact_string,
    read_struct,
    read_tagged_fields,
    read_uuid,
    read_uvarint,
    uuid_to_bytes,
)

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

TAG_CLUSTER_ID = 20000
TAG_TARGET_VOTERS = 20001
TAG_TOMBSTONES = 20002
TAG_INITIAL_VOTERS = 20003
TAG_LOG_POSITION = 20004
TAG_RECOVERED_EPOCH = 20005

TAG_LEADER_CHANGE_UUID = 20000

TAG_VOTER_PRIVATE_FEATURES = 20000
"""Tagged field in the entry of one voter."""

_KEY = Struct(">hh")
_UINT16 = Struct(">H")
_POSITION = Struct(">qi")
_FEATURE_RANGE = Struct(">hhB")


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """A new leader, the voters, and those that granted it their vote."""

    leader_id: int
    voters: tuple[ReplicaKey, ...]
    granting_voters: tuple[ReplicaKey, ...]
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """Finalized kraft.version; 1 = voter sets come from the log."""

    level: int
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class VotersRecord:
    """The whole voter set; of two entries with one id the last has the newest key.

    Private fields:
    `cluster_id`.
    `initial_voters`: number of voters that a new quorum needs before it accepts writes.
    `tombstones`: former voters, the last one removed last.
    `log_position`: (offset, epoch) of this record in the log; only in a snapshot, whose own offsets
    differ. It identifies a voter set after the log's prefix was deleted.
    `target_voters`: target of an AlterQuorum in progress, else None. A UUID of None: any replica
    with that id.
    `recovered_epoch`: epoch in which `--recover` last made a survivor the sole voter; 0 for never.
    Replicas that have seen a recovery refuse leaders that have not.
    """

    voters: tuple[Voter, ...]
    cluster_id: str | None = None
    initial_voters: int | None = None
    tagged_fields: TaggedFields = ()
    log_position: tuple[int, int] | None = None
    target_voters: tuple[ReplicaKey, ...] | None = None
    tombstones: tuple[ReplicaKey, ...] = ()
    recovered_epoch: int = 0


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """First record of a snapshot."""

    last_contained_log_timestamp_ms: int
    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class SnapshotFooter:
    """Last record of a snapshot: without it the file is incomplete."""

    tagged_fields: TaggedFields = ()


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control record that this version does not support; kept unchanged."""

    type: int
    key: bytes
    value: bytes | None


ControlRecord = LeaderChange | KRaftVersion | VotersRecord | SnapshotHeader | SnapshotFooter


def encode_control(record: ControlRecord | UnknownControl) -> Record:
    """Key and value of a control record."""
    match record:
        case LeaderChange():
            return Record(_key(LEADER_CHANGE), _encode_leader_change(record))
        case KRaftVersion():
            level = INT16.pack(record.level)
            return Record(_key(KRAFT_VERSION), b"\0\0" + level + _tags(record.tagged_fields))
        case VotersRecord():
            return Record(_key(KRAFT_VOTERS), _encode_voters(record))
        case SnapshotHeader():
            timestamp = INT64.pack(record.last_contained_log_timestamp_ms)
            return Record(_key(SNAPSHOT_HEADER), b"\0\0" + timestamp + _tags(record.tagged_fields))
        case SnapshotFooter():
            return Record(_key(SNAPSHOT_FOOTER), b"\0\0" + _tags(record.tagged_fields))
        case UnknownControl():
            return Record(record.key, record.value)


def decode_control(record: DecodedRecord) -> ControlRecord | UnknownControl:
    """A control record from a control batch.

    A type, or a version of a known type, that is newer than this code gives UnknownControl.
    Raises MalformedRecord on bytes that are not of the record's format.
    """
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedRecord("a control record without a type")
    _, kind = _KEY.unpack_from(record.key, 0)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        return UnknownControl(kind, record.key, record.value)
    if record.value is None:
        raise MalformedRecord(f"control record of type {kind} without a value")
    version, _ = read_struct(INT16, record.value, 0)
    newest = 1 if kind == LEADER_CHANGE else 0
    if not 0 <= version <= newest:
        return UnknownControl(kind, record.key, record.value)
    decoded, position = decoder(record.value, version)
    if position != len(record.value):
        raise MalformedRecord(f"{len(record.value) - position} bytes after a control record")
    return decoded


def _key(kind: int) -> bytes:
    return _KEY.pack(0, kind)


def _tags(kept: TaggedFields) -> bytes:
    return encode_tagged_fields(None, kept)


def _kept(fields: dict[int, bytes]) -> TaggedFields:
    return tuple(fields.items())


def _encode_leader_change(record: LeaderChange) -> bytes:
    return b"".join(
        (
            b"\0\0",
            INT32.pack(record.leader_id),
            _encode_keys(record.voters),
            _encode_keys(record.granting_voters),
            _tags(record.tagged_fields),
        )
    )


def _encode_keys(keys: tuple[ReplicaKey, ...]) -> bytes:
    parts = [encode_uvarint(len(keys) + 1)]
    for key in keys:
        private = {} if key.uuid is None else {TAG_LEADER_CHANGE_UUID: uuid_to_bytes(key.uuid)}
        parts += (INT32.pack(key.id), encode_tagged_fields(private))
    return b"".join(parts)


def _decode_leader_change(value: bytes, version: int) -> tuple[ControlRecord, int]:
    leader_id, position = read_struct(INT32, value, 2)
    voters, position = _read_keys(value, position, version)
    granting, position = _read_keys(value, position, version)
    fields, position = read_tagged_fields(value, position)
    return LeaderChange(leader_id, voters, granting, _kept(fields)), position


def _read_keys(value: bytes, position: int, version: int) -> tuple[tuple[ReplicaKey, ...], int]:
    count, position = read_array_length(value, position)
    keys = []
    for _ in range(count):
        uuid = None
        voter_id, position = read_struct(INT32, value, position)
        if version >= 1:
            uuid, position = read_uuid(value, position)
        fields, position = read_tagged_fields(value, position)
        if (data := fields.get(TAG_LEADER_CHANGE_UUID)) is not None:
            uuid, _ = read_uuid(data, 0)
        keys.append(replica_key(voter_id, uuid))
    return tuple(keys), position


def _decode_kraft_version(value: bytes, version: int) -> tuple[ControlRecord, int]:
    level, position = read_struct(INT16, value, 2)
    fields, position = read_tagged_fields(value, position)
    return KRaftVersion(level, _kept(fields)), position


def _encode_voters(record: VotersRecord) -> bytes:
    parts = [b"\0\0", encode_uvarint(len(record.voters) + 1)]
    parts += [_encode_voter(voter) for voter in record.voters]
    private: dict[int, bytes] = {}
    if record.cluster_id is not None:
        private[TAG_CLUSTER_ID] = encode_compact_string(record.cluster_id)
    if record.initial_voters is not None:
        private[TAG_INITIAL_VOTERS] = INT32.pack(record.initial_voters)
    if record.log_position is not None:
        private[TAG_LOG_POSITION] = _POSITION.pack(*record.log_position)
    if record.target_voters is not None:
        private[TAG_TARGET_VOTERS] = _encode_targets(record.target_voters)
    if record.tombstones:
        private[TAG_TOMBSTONES] = _encode_tombstones(record.tombstones)
    if record.recovered_epoch:
        private[TAG_RECOVERED_EPOCH] = INT32.pack(record.recovered_epoch)
    parts.append(encode_tagged_fields(private, record.tagged_fields))
    return b"".join(parts)


def _encode_tombstones(keys: tuple[ReplicaKey, ...]) -> bytes:
    parts = [encode_uvarint(len(keys) + 1)]
    for key in keys:
        parts += (INT32.pack(key.id), uuid_to_bytes(key.uuid))
    return b"".join(parts)


def _decode_tombstones(data: bytes) -> tuple[ReplicaKey, ...]:
    count, position = read_array_length(data, 0)
    keys = []
    for _ in range(count):
        voter_id, position = read_struct(INT32, data, position)
        uuid, position = read_uuid(data, position)
        keys.append(ReplicaKey(voter_id, uuid))
    return tuple(keys)


def _encode_voter(voter: Voter) -> bytes:
    parts = [INT32.pack(voter.key.id), uuid_to_bytes(voter.key.uuid)]
    parts.append(encode_uvarint(len(voter.endpoints) + 1))
    for endpoint in voter.endpoints:
        parts += (encode_compact_string(endpoint.name), encode_compact_string(endpoint.host))
        parts += (_UINT16.pack(endpoint.port), _tags(endpoint.tagged_fields))
    feature = _FEATURE_RANGE.pack(voter.min_kraft_version, voter.max_kraft_version, 0)
    private = {}
    if voter.private_features:
        private[TAG_VOTER_PRIVATE_FEATURES] = encode_uvarint(voter.private_features)
    parts += (feature, encode_tagged_fields(private, voter.tagged_fields))
    return b"".join(parts)


def _encode_targets(targets: tuple[ReplicaKey, ...]) -> bytes:
    parts = [encode_uvarint(len(targets) + 1)]
    for key in targets:
        parts += (INT32.pack(key.id), uuid_to_bytes(key.uuid), _tags(()))
    return b"".join(parts)


def _read_targets(data: bytes) -> tuple[ReplicaKey, ...]:
    count, position = read_array_length(data, 0)
    targets = []
    for _ in range(count):
        voter_id, position = read_struct(INT32, data, position)
        uuid, position = read_uuid(data, position)
        _, position = read_tagged_fields(data, position)
        targets.append(ReplicaKey(voter_id, uuid))
    return tuple(targets)


@lru_cache(maxsize=64)
def _decode_voters(value: bytes, version: int) -> tuple[ControlRecord, int]:
    """Decode voters, with a cache: the same few voters occur in the log and in every snapshot."""
    count, position = read_array_length(value, 2)
    voters = []
    for _ in range(count):
        voter, position = _read_voter(value, position)
        voters.append(voter)
    fields, position = read_tagged_fields(value, position)
    cluster_id = initial_voters = log_position = targets = None
    if (data := fields.pop(TAG_CLUSTER_ID, None)) is not None:
        cluster_id, _ = read_compact_string(data, 0)
    if (data := fields.pop(TAG_INITIAL_VOTERS, None)) is not None:
        initial_voters, _ = read_struct(INT32, data, 0)
    if (data := fields.pop(TAG_LOG_POSITION, None)) is not None:
        if len(data) != _POSITION.size:
            raise MalformedRecord(f"a log position of {len(data)} bytes")
        log_position = _POSITION.unpack(data)
    if (data := fields.pop(TAG_TARGET_VOTERS, None)) is not None:
        targets = _read_targets(data)
    tombstones = _decode_tombstones(fields.pop(TAG_TOMBSTONES, b"\1"))
    if len({voter.key for voter in voters}) < len(voters):
        raise MalformedRecord("a voters record contains a voter twice")
    recovered_epoch = 0
    if (data := fields.pop(TAG_RECOVERED_EPOCH, None)) is not None:
        recovered_epoch, _ = read_struct(INT32, data, 0)
    record = VotersRecord(
        tuple(voters),
        cluster_id,
        initial_voters,
        _kept(fields),
        log_position,
        targets,
        tombstones,
        recovered_epoch,
    )
    return record, position


def _read_voter(value: bytes, position: int) -> tuple[Voter, int]:
    voter_id, position = read_struct(INT32, value, position)
    uuid, position = read_uuid(value, position)
    count, position = read_array_length(value, position)
    endpoints = []
    for _ in range(count):
        name, position = read_compact_string(value, position)
        host, position = read_compact_string(value, position)
        port, position = read_struct(_UINT16, value, position)
        fields, position = read_tagged_fields(value, position)
        endpoints.append(Endpoint(name, host, port, _kept(fields)))
    low, position = read_struct(INT16, value, position)
    high, position = read_struct(INT16, value, position)
    _, position = read_tagged_fields(value, position)
    fields, position = read_tagged_fields(value, position)
    features = 0
    if (data := fields.pop(TAG_VOTER_PRIVATE_FEATURES, None)) is not None:
        features, _ = read_uvarint(data, 0)
    key = replica_key(voter_id, uuid)
    return Voter(key, tuple(endpoints), low, high, features, _kept(fields)), position


def _decode_snapshot_header(value: bytes, version: int) -> tuple[ControlRecord, int]:
    timestamp, position = read_struct(INT64, value, 2)
    fields, position = read_tagged_fields(value, position)
    return SnapshotHeader(timestamp, _kept(fields)), position


def _decode_snapshot_footer(value: bytes, version: int) -> tuple[ControlRecord, int]:
    fields, position = read_tagged_fields(value, 2)
    return SnapshotFooter(_kept(fields)), position


_DECODERS: dict[int, Callable[[bytes, int], tuple[ControlRecord, int]]] = {
    LEADER_CHANGE: _decode_leader_change,
    KRAFT_VERSION: _decode_kraft_version,
    KRAFT_VOTERS: _decode_voters,
    SNAPSHOT_HEADER: _decode_snapshot_header,
    SNAPSHOT_FOOTER: _decode_snapshot_footer,
}
