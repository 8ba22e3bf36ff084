"""The typed columns: one for each type of record, generated from the declarations of records. PURE.

Owns names and types, and the conversion of decoded records to plain values. Types are written as in Spark and Hive
(`array<int>`). UUIDs are text in Kafka's form. Bytes (salts and keys of credentials) have no typed column; they are
only in the raw value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from quorum_node.records.control import KRaftVersion, LeaderChange, SnapshotHeader, VotersRecord
from quorum_node.records.identity import ReplicaKey, uuid_text
from quorum_node.records.metadata import RECORDS_BY_TYPE
from quorum_node.schema.schema import (
    ANY_UUID,
    BYTES,
    RECORDS,
    STRING,
    Array,
    Fixed,
    Message,
    Variable,
    WireType,
)
from quorum_node.schema.source import wire_fields

_SCALARS = {
    "?": "boolean",
    "b": "tinyint",
    "h": "smallint",
    "H": "int",
    "i": "int",
    "q": "bigint",
    "d": "double",
    "16s": "string",
}
_KNOWN_UUIDS = 1 << 16
_KEY = "struct<`id`:int,`uuid`:string>"
_ENDPOINT = "struct<`name`:string,`host`:string,`port`:int>"
_VOTER = (
    f"struct<`id`:int,`uuid`:string,`endpoints`:array<{_ENDPOINT}>,"
    "`min_kraft_version`:int,`max_kraft_version`:int>"
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a typed column; `value` returns its value in a record as a plain Python type."""

    name: str
    type: str
    value: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RecordColumn:
    """The column of one type of record; null in the rows of all others."""

    name: str
    record: type
    fields: tuple[Field, ...]

    @property
    def type(self) -> str:
        """Its declared type."""
        inner = ",".join(f"`{field.name}`:{field.type}" for field in self.fields)
        return f"struct<{inner}>"


@cache
def record_columns() -> tuple[RecordColumn, ...]:
    """Return the typed columns: control records, then metadata records by type number; those without fields have none."""
    declared = [
        RecordColumn(_column_name(cls.__name__), cls, _declared_fields(cls))
        for _, cls in sorted(RECORDS_BY_TYPE.items())
    ]
    return (*_CONTROL, *(column for column in declared if column.fields))


def plain(value: Any) -> Any:
    """Convert a value of a record to plain Python types."""
    if isinstance(value, UUID):
        return uuid_text(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Message):
        return {name: plain(getattr(value, name)) for name, _ in wire_fields(type(value))}
    return value


def _declared_fields(cls: type[Message]) -> tuple[Field, ...]:
    return tuple(
        Field(name, _type_name(spec.type), _getter(name, spec.type))
        for name, spec in wire_fields(cls)
        if spec.type not in (BYTES, RECORDS)
    )


def _getter(name: str, type: WireType) -> Callable[[Any], Any]:
    """Return a getter for one field, on the hot path: most values need no conversion, and UUIDs repeat."""
    take = attrgetter(name)
    if type == ANY_UUID:
        return lambda record: known_uuid_text(take(record))
    if type == Array(ANY_UUID):
        return lambda record: _uuid_texts(take(record))
    element = type.element if isinstance(type, Array) else type
    if _is_plain(element):
        return take
    if isinstance(type, Array) and not isinstance(element, Fixed | Variable | Array):
        specs = dict(wire_fields(element))
        if len(specs) > 1 and all(_is_plain(spec.type) for spec in specs.values()):
            return _structures(take, tuple(specs))
    return lambda record: plain(take(record))


def _structures(
    take: Callable[[Any], Any], names: tuple[str, ...]
) -> Callable[[Any], list[dict[str, Any]] | None]:
    values = attrgetter(*names)

    def found(record: Any) -> list[dict[str, Any]] | None:
        elements = take(record)
        if elements is None:
            return None
        return [dict(zip(names, values(each), strict=True)) for each in elements]

    return found


def _is_plain(type: WireType) -> bool:
    return type == STRING or (isinstance(type, Fixed) and type != ANY_UUID)


@lru_cache(maxsize=_KNOWN_UUIDS)
def known_uuid_text(uuid: UUID | None) -> str | None:
    """Return `uuid_text` of a UUID, cached as UUIDs repeat; None stays None."""
    return None if uuid is None else uuid_text(uuid)


@lru_cache(maxsize=_KNOWN_UUIDS)
def _uuid_texts(uuids: tuple[UUID | None, ...] | None) -> tuple[str | None, ...] | None:
    return None if uuids is None else tuple(map(known_uuid_text, uuids))


def _type_name(type: WireType) -> str:
    if isinstance(type, Fixed):
        return _SCALARS[type.code]
    if isinstance(type, Array):
        return f"array<{_type_name(type.element)}>"
    if isinstance(type, Variable):
        assert type == STRING, f"no column type for {type.name}"
        return "string"
    inner = ",".join(f"`{name}`:{_type_name(spec.type)}" for name, spec in wire_fields(type))
    return f"struct<{inner}>"


def _column_name(class_name: str) -> str:
    """`PartitionChangeRecord` → `partition_change`."""
    stem = class_name.removesuffix("Record")
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in stem)[1:]


def _keys(keys: tuple[ReplicaKey, ...]) -> list[dict[str, object]]:
    return [{"id": key.id, "uuid": uuid_text(key.uuid) if key.uuid else None} for key in keys]


def _voters(record: VotersRecord) -> list[dict[str, object]]:
    return [
        {
            "id": voter.key.id,
            "uuid": uuid_text(voter.key.uuid) if voter.key.uuid else None,
            "endpoints": [
                {"name": each.name, "host": each.host, "port": each.port}
                for each in voter.endpoints
            ],
            "min_kraft_version": voter.min_kraft_version,
            "max_kraft_version": voter.max_kraft_version,
        }
        for voter in record.voters
    ]


_CONTROL = (
    RecordColumn(
        "leader_change",
        LeaderChange,
        (
            Field("leader_id", "int", lambda record: record.leader_id),
            Field("voters", f"array<{_KEY}>", lambda record: _keys(record.voters)),
            Field("granting_voters", f"array<{_KEY}>", lambda r: _keys(r.granting_voters)),
        ),
    ),
    RecordColumn(
        "kraft_version", KRaftVersion, (Field("level", "int", lambda record: record.level),)
    ),
    RecordColumn(
        "voters",
        VotersRecord,
        (
            Field("voters", f"array<{_VOTER}>", _voters),
            Field("cluster_id", "string", lambda record: record.cluster_id),
            Field(
                "target_voters",
                f"array<{_KEY}>",
                lambda r: None if r.target_voters is None else _keys(r.target_voters),
            ),
        ),
    ),
    RecordColumn(
        "snapshot_header",
        SnapshotHeader,
        (
            Field(
                "last_contained_log_timestamp_ms",
                "bigint",
                lambda record: record.last_contained_log_timestamp_ms,
            ),
        ),
    ),
)
