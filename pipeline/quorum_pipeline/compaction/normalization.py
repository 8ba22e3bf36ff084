"""Normalizes records to the encoding that compiled loops support. PURE.

Owns what is done with records in another encoding, or with fields of a newer version: each is decoded and encoded
again. Fields that an image can't contain are dropped, and a record of an internal type names them, as only a state without
them can be a snapshot. Source: KIP-482 (tagged fields); KIP-631, "Record format".
"""

from dataclasses import replace

import numpy as np

from quorum_node.image.changes import TAGGED_FIELDS_KEPT
from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.frames import OTHER
from quorum_pipeline.compaction.internal_records import COMBINED_CHANGE, LEFT_OUT_NAME, REMOVED_NAME
from quorum_pipeline.compaction.record_run import RecordRun, known_run

_INTERNAL = (COMBINED_CHANGE, REMOVED_NAME, LEFT_OUT_NAME)
_HEAD = bytes((md.FRAME_VERSION, LEFT_OUT_NAME, 0))


def normalized(run: RecordRun) -> tuple[RecordRun, list[int]]:
    """Return the records in their canonical encoding, and for each one the index of its origin. Raises Unsupported."""
    values, kinds, origins, left_out = list[bytes](), list[int](), list[int](), set[str]()
    for index, kind in enumerate(run.kinds.tolist()):
        value, name = run.value(index), ""
        if kind not in (*_INTERNAL, OTHER):
            value, name = _normalized(value)
        if name and name not in left_out:
            left_out.add(name)
            values.append(left_out_value(name))
            kinds.append(LEFT_OUT_NAME)
            origins.append(index)
        values.append(value)
        kinds.append(kind)
        origins.append(index)
    borders = np.cumsum(np.array([0, *map(len, values)], np.int64))
    data = np.frombuffer(bytearray().join(values), np.uint8)
    found = known_run(data, borders[:-1].copy(), borders[1:].copy())
    return RecordRun(found.data, found.begins, found.ends, np.array(kinds, np.uint8)), origins


def left_out_value(name: str) -> bytes:
    """Encode what an image can't contain as a record of an internal type."""
    return _HEAD + name.encode()


def left_out_name(value: bytes) -> str:
    """Decode such a record."""
    return value[len(_HEAD) :].decode()


def _normalized(value: bytes) -> tuple[bytes, str]:
    try:
        record = md.decode_metadata(value)
    except MalformedRecord:
        raise Unsupported from None
    name, kind = "", type(record)
    if isinstance(record, md.UnknownMetadata):
        return value, name
    if record.tagged_fields and kind not in TAGGED_FIELDS_KEPT:
        name = f"{kind.__name__} with fields of a newer version"
        record = replace(record, tagged_fields=())
    return md.encode_metadata(record, value[len(_HEAD) - 1]), name
