"""The content of one record: type, version, and the decoded record. PURE.

Distinguishes control records, metadata records and unknown ones. A record that can't be decoded is reported as a
value, so that others can still be read. Source: KIP-595 ("Log"), KIP-631 ("Record format").
"""

from typing import NamedTuple

from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import ControlRecord, UnknownControl, decode_control
from quorum_node.records.metadata import UnknownMetadata, decode_metadata, record_type_name
from quorum_node.schema.primitives import MalformedRecord, read_uvarint
from quorum_node.schema.schema import Message


class Content(NamedTuple):
    """`record` is None if it could not be decoded; `problem` is the reason."""

    type: str | None
    version: int | None
    record: Message | ControlRecord | None
    problem: str | None = None


def metadata_content(value: bytes | None) -> Content:
    """Decode a record of a batch other than a control batch."""
    if value is None:
        return Content(None, None, None, "a metadata record without a value")
    try:
        kind, version = _type_and_version(value)
    except MalformedRecord as error:
        return Content(None, None, None, str(error))
    name = record_type_name(kind)
    try:
        record = decode_metadata(value)
    except MalformedRecord as error:
        return Content(name, version, None, str(error))
    if isinstance(record, UnknownMetadata):
        return Content(name, version, None, f"{name} version {version} is not known")
    return Content(name, version, record)


def control_content(record: DecodedRecord) -> Content:
    """Decode a record of a control batch."""
    try:
        found = decode_control(record)
    except MalformedRecord as error:
        return Content(None, None, None, str(error))
    version = int.from_bytes(record.value[:2], "big") if record.value else None
    if isinstance(found, UnknownControl):
        name = f"control type {found.type}"
        return Content(name, version, None, f"{name} version {version} is not known")
    return Content(type(found).__name__, version, found)


def _type_and_version(value: bytes) -> tuple[int, int]:
    # Both take one byte each in all of Kafka's records so far.
    if len(value) >= 3 and value[1] < 0x80 and value[2] < 0x80:
        return value[1], value[2]
    kind, position = read_uvarint(value, 1)
    return kind, read_uvarint(value, position)[0]
