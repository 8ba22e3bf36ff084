"""Columns of Arrow from the places of fields. PURE.

Owns how a column is made without a step for each value. Must not know how places are found (`columnar.py`).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorum_node.schema.schema import STRING, Array, FieldSpec, Fixed, WireType
from quorum_pipeline.rows.columnar import (
    Bytes,
    Indexes,
    Places,
    Positions,
    TaggedPlaces,
    Unusual,
    numbers,
)
from quorum_pipeline.rows.declared import plain

_LETTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_PAIRS = np.stack([np.repeat(_LETTERS, 64), np.tile(_LETTERS, 64)], axis=1).reshape(-1).view("u2")
"""Two letters of base 64 for each number of twelve bits."""
_TEXT_BYTES = 22
_ARROW = {
    "?": pa.bool_(),
    "b": pa.int8(),
    "h": pa.int16(),
    "H": pa.uint16(),
    "i": pa.int32(),
    "q": pa.int64(),
    "d": pa.float64(),
    "16s": pa.string(),
}


def field_array(data: Bytes, field: Places | TaggedPlaces | FieldSpec, count: int) -> pa.Array:
    """The values of `count` records. Raises Unusual on text that is none, and on a type that has no column here."""
    if isinstance(field, Places):
        return _values(data, field)
    spec = field if isinstance(field, FieldSpec) else field.spec
    parts = [] if isinstance(field, FieldSpec) else field.parts
    if not parts:
        return _default(spec, count)
    arrays = [_values(data, places) for _, places in parts]
    indexes = np.concatenate([each for each, _ in parts])
    if len(indexes) < count:
        rest = np.setdiff1d(np.arange(count), indexes, assume_unique=True)
        arrays.append(_default(spec, len(rest)))
        indexes = np.concatenate([indexes, rest])
    return spread(arrays, indexes, count)


def spread(arrays: list[pa.Array], indexes: Indexes, count: int) -> pa.Array:
    """One of `count` elements: the first of all of `arrays` goes to the first of `indexes`; null where none goes to."""
    joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if len(arrays) == 1 and len(indexes) == count:
        return joined
    order = np.full(count, -1, np.int32)
    order[indexes] = np.arange(len(indexes), dtype=np.int32)
    return joined.take(pa.array(order, mask=order < 0 if len(indexes) < count else None))


def bytes_array(data: Bytes, begins: Positions, ends: Positions, nulls: Any = None) -> pa.Array:
    """The bytes from `begins[i]` to `ends[i]`, which follow each other in this order.

    Arrow copies: it takes every other element of an array in which the gaps are elements, too.
    """
    count = len(begins)
    if not count:
        return pa.array([], pa.binary())
    borders = np.empty(2 * count, np.int32)
    borders[0::2], borders[1::2] = begins, ends
    buffers = [None, pa.py_buffer(borders), pa.py_buffer(data)]
    all_of_them = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, buffers)
    return all_of_them.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=nulls))


def _default(spec: FieldSpec, count: int) -> pa.Array:
    value, kind = plain(spec.default), _arrow_type(spec.type)
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _arrow_type(kind: WireType) -> pa.DataType:
    if isinstance(kind, Fixed):
        return _ARROW[kind.code]
    if isinstance(kind, Array) and isinstance(kind.element, Fixed):
        return pa.list_(_ARROW[kind.element.code])
    if kind == STRING:
        return pa.string()
    raise Unusual


def _values(data: Bytes, places: Places) -> pa.Array:
    kind = places.type
    if isinstance(kind, Fixed):
        return _fixed(data, kind, places.begins)
    assert places.counts is not None
    if isinstance(kind, Array):
        assert isinstance(kind.element, Fixed)
        begins, offsets = _elements(places.begins, places.counts, kind.element.size_bytes)
        nulls = None if places.nulls is None else pa.array(places.nulls)
        return pa.ListArray.from_arrays(
            pa.array(offsets), _fixed(data, kind.element, begins), mask=nulls
        )
    found = bytes_array(data, places.begins, places.begins + places.counts, places.nulls)
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        raise Unusual from None


def _elements(
    begins: Positions, counts: Positions, size_bytes: int
) -> tuple[Positions, npt.NDArray[np.int32]]:
    """Where each element of each array begins, and where in them the elements of an array begin."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    first = np.repeat(begins - offsets[:-1] * size_bytes, counts)
    return first + np.arange(offsets[-1]) * size_bytes, offsets.astype(np.int32)


def _fixed(data: Bytes, kind: Fixed, begins: Positions) -> pa.Array:
    found = numbers(data, kind, begins)
    if kind.code == "16s":
        return _uuid_texts(found)
    return pa.array(found != 0) if kind.code == "?" else pa.array(found)


def _uuid_texts(uuids: Bytes) -> pa.Array:
    """As Kafka writes them: base 64 of the sixteen bytes, without padding."""
    count = len(uuids)
    padded = np.zeros((count, 18), np.uint16)
    padded[:, :16] = uuids
    first, second, third = padded[:, 0::3], padded[:, 1::3], padded[:, 2::3]
    pairs = np.empty((count, 12), np.uint16)
    pairs[:, 0::2] = first << 4 | second >> 4
    pairs[:, 1::2] = (second & 0xF) << 8 | third
    letters = np.ascontiguousarray(_PAIRS[pairs[:, : _TEXT_BYTES // 2]])
    offsets = np.arange(0, _TEXT_BYTES * (count + 1), _TEXT_BYTES, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(letters))
