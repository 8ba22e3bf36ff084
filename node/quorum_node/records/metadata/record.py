"""Declaration of metadata records, and the form of undeclared ones.

Owns the base class of all records and the registry by type number. Must not know any particular
record.
Source: KIP-631, "Record format": a record has a type, a version and a body; all bodies are flexible
(KIP-482).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar, dataclass_transform

from quorum_node.schema.schema import Message, message, wire


class MetadataMessage(Message):
    """Base of every declared record. One class serves all versions of its type."""

    __slots__ = ()

    RECORD_TYPE: ClassVar[int]
    HIGHEST_VERSION: ClassVar[int]


@dataclass(frozen=True, slots=True)
class UnknownMetadata:
    """A record whose type or version is unknown; its payload is kept."""

    type: int
    version: int
    payload: bytes


AnyMetadata = MetadataMessage | UnknownMetadata

RECORDS_BY_TYPE: dict[int, type[MetadataMessage]] = {}
"""Filled by the declarations."""

_M = TypeVar("_M", bound=MetadataMessage)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(wire,))
def metadata_record(*, number: int, highest_version: int = 0) -> Callable[[type[_M]], type[_M]]:
    """Class decorator: Kafka's number of the record and its newest shipped version."""

    def declare(cls: type[_M]) -> type[_M]:
        made = message(flexible_since=0)(cls)
        made.RECORD_TYPE = number
        made.HIGHEST_VERSION = highest_version
        assert number not in RECORDS_BY_TYPE, f"two records of type {number}"
        RECORDS_BY_TYPE[number] = made
        return made

    return declare


def record_type_name(number: int) -> str:
    """Kafka's name of a type, or its number."""
    known = RECORDS_BY_TYPE.get(number)
    return known.__name__ if known is not None else f"type {number}"
