"""A record as one JSON document with Kafka's field names, without secrets. PURE. `declared.py` has the types of
columns.
"""

import json

from quorum_node.image.record_fields import record_fields
from quorum_node.records.control import ControlRecord
from quorum_node.schema.schema import Message
from quorum_pipeline.rows.declared import record_columns

_CONTROL = {column.record: column for column in record_columns()}


def json_of(record: Message | ControlRecord) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(_document(record), separators=(",", ":"), ensure_ascii=False)


def _document(record: Message | ControlRecord) -> dict[str, object]:
    if isinstance(record, Message):
        return record_fields(record)
    column = _CONTROL.get(type(record))
    if column is None:
        return {}
    return {_camel(field.name): _shown(field.value(record)) for field in column.fields}


def _shown(value: object) -> object:
    match value:
        case dict():
            return {_camel(name): _shown(each) for name, each in value.items()}
        case list():
            return [_shown(each) for each in value]
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
