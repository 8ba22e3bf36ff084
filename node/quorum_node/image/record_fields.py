"""A metadata record as a JSON object, with Kafka's field names and UUID form.

Owns the form in which records are shown to people. Secrets are not shown. Must not know logs and batches.
"""

from uuid import UUID

from quorum_node.image.resource_types import resource_type_name
from quorum_node.records.identity import uuid_text
from quorum_node.records.metadata import ConfigRecord, MetadataMessage
from quorum_node.schema.schema import Message
from quorum_node.schema.source import wire_fields

_SECRET = "(not shown)"


def record_fields(record: Message) -> dict[str, object]:
    """All declared fields, in the order of the wire."""
    found = {_camel(name): _shown(getattr(record, name)) for name, _ in wire_fields(type(record))}
    if isinstance(record, ConfigRecord):
        found["resourceType"] = resource_type_name(record.resource_type)
    if isinstance(record, MetadataMessage) and record.tagged_fields:
        found["unknownTaggedFields"] = {str(tag): data.hex() for tag, data in record.tagged_fields}
    return found


def _shown(value: object) -> object:
    match value:
        case UUID():
            return uuid_text(value)
        case bytes():
            return _SECRET  # salts and keys of credentials
        case Message():
            return record_fields(value)
        case tuple():
            return [_shown(each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
