"""Makes Arrow columns from the positions of fields. PURE.

Owns how a column is made without a step of Python for each value. Must not depend on how positions are found
(`columnar.py`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorum_node.schema.schema import STRING, Array, FieldSpec, Fixed, WireType
from quorum_node.schema.source import wire_fields
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compiled import Bytes, Numbers
from quorum_pipeline.rows import loops
from quorum_pipeline.rows.columnar import Indexes, Places, fields_of_structures
from quorum_pipeline.rows.declared import plain
from quorum_pipeline.rows.loops import ABSENT

_LETTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
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
_NUMPY = {"?": "u1", "b": "i1", "h": "i2", "H": "u2", "i": "i4", "q": "i8", "d": "f8"}


def field_array(data: Bytes, field: Places | FieldSpec, count: int) -> pa.Array:
    """Return the values of `count` records. Raises Unsupported on invalid UTF-8, and on an unsupported type."""
    if isinstance(field, FieldSpec):
        return _repeated(plain(field.default), _arrow_type(field.type), count)
    kind, default = field.spec.type, field.spec.default
    if isinstance(kind, Fixed):
        return _fixed(data, kind, field.begins, None if field.is_everywhere else default)
    counts, nulls = field.counts, field.counts < 0
    if not field.is_everywhere:
        absent = field.begins == ABSENT
        if default is not None and default not in ("", ()):
            raise Unsupported
        nulls = nulls & ~absent if default is not None else nulls | absent
        counts = np.where(absent, 0, counts)
    mask = nulls if nulls.any() else None
    counts = counts if mask is None else np.where(nulls, 0, counts)
    if isinstance(kind, Array):
        offsets = _offsets(counts)
        return _list_array(offsets, _elements(data, field, kind, offsets), mask)
    found = _texts(data, field.begins, counts, mask, pa.string())
    try:
        found.validate(full=True)
    except pa.ArrowInvalid:
        raise Unsupported from None
    return found


def _elements(data: Bytes, field: Places, kind: Array, offsets: npt.NDArray[np.int32]) -> pa.Array:
    if isinstance(kind.element, Fixed):
        begins = np.empty(offsets[-1], np.int64)
        loops.elements(field.begins, offsets, kind.element.size_bytes, begins)
        return _fixed(data, kind.element, begins, None)
    found = fields_of_structures(field, data, field.begins, offsets)
    assert isinstance(kind.element, type)
    names = [name for name, _ in wire_fields(kind.element)]
    count = int(offsets[-1])
    return pa.StructArray.from_arrays([field_array(data, found[n], count) for n in names], names)


def spread(arrays: list[pa.Array], indexes: Indexes, count: int) -> pa.Array:
    """Return an array of `count` elements: element i of the concatenated `arrays` is at `indexes[i]`; the others are null."""
    joined = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if len(arrays) == 1 and len(indexes) == count:
        return joined
    order = np.full(count, -1, np.int32)
    order[indexes] = np.arange(len(indexes), dtype=np.int32)
    return joined.take(pa.array(order, mask=order < 0 if len(indexes) < count else None))


def bytes_array(data: Bytes, begins: Numbers, ends: Numbers) -> pa.Array:
    """Return an array with the bytes from `begins[i]` to `ends[i]`."""
    return _texts(data, begins, ends - begins, None, pa.binary())


def joined(parts: Sequence[str | pa.StringArray], count: int) -> pa.Array:
    """Return `count` texts, each the concatenation of all parts: a part is one text for all, or an array of texts without nulls."""
    sizes = np.zeros(count, np.int64)
    found: list[tuple[Bytes, npt.NDArray[np.int32] | None]] = []
    for part in parts:
        if isinstance(part, str):
            text = np.frombuffer(part.encode(), np.uint8)
            sizes += len(text)
            found.append((text, None))
            continue
        _, borders, data = part.buffers()
        offsets = _view(borders, np.int32)[part.offset : part.offset + count + 1]
        sizes += np.diff(offsets)
        found.append((_view(data, np.uint8), offsets))
    offsets = _offsets(sizes)
    ends, letters = offsets[:-1].copy(), np.empty(offsets[-1], np.uint8)
    for text, borders in found:
        if borders is None:
            loops.appended_to_all(text, ends, letters)
        else:
            loops.appended(text, borders, ends, letters)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    )


def _view(buffer: pa.Buffer | None, kind: npt.DTypeLike) -> Any:
    """Return a read-only view of a buffer: compiled loops distinguish types of read-only and writable arrays."""
    found = np.frombuffer(buffer if buffer is not None else b"", kind)
    found.flags.writeable = False
    return found


def _texts(
    data: Bytes, begins: Numbers, counts: Numbers, nulls: Any, kind: pa.DataType
) -> pa.Array:
    offsets = _offsets(counts)
    found = np.empty(offsets[-1], np.uint8)
    loops.gathered(data, begins, offsets, found)
    buffers = [_validity(nulls), pa.py_buffer(offsets), pa.py_buffer(found)]
    return pa.Array.from_buffers(kind, len(begins), buffers)


def _list_array(offsets: npt.NDArray[np.int32], values: pa.Array, nulls: Any) -> pa.Array:
    return pa.Array.from_buffers(
        pa.list_(values.type),
        len(offsets) - 1,
        [_validity(nulls), pa.py_buffer(offsets)],
        children=[values],
    )


def _validity(nulls: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    return None if nulls is None else pa.py_buffer(np.packbits(~nulls, bitorder="little"))


def _offsets(counts: Numbers) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _repeated(value: object, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)


def _arrow_type(kind: WireType) -> pa.DataType:
    if isinstance(kind, Fixed):
        return _ARROW[kind.code]
    if isinstance(kind, Array):
        return pa.list_(_arrow_type(kind.element))
    if kind == STRING:
        return pa.string()
    if isinstance(kind, type):
        return pa.struct([(name, _arrow_type(spec.type)) for name, spec in wire_fields(kind)])
    raise Unsupported


def _fixed(data: Bytes, kind: Fixed, begins: Numbers, default: Any) -> pa.Array:
    if kind.code == "16s":
        return _uuid_texts(data, begins, plain(default))
    found = np.empty((len(begins), kind.size_bytes), np.uint8)
    number = np.dtype(_NUMPY[kind.code])
    missing = np.zeros(1, number) if default is None else np.array([default], number)
    loops.turned(data, begins, missing.view(np.uint8), found)
    numbers = found.reshape(-1).view(number)
    return pa.array(numbers != 0) if kind.code == "?" else pa.array(numbers)


def _uuid_texts(data: Bytes, begins: Numbers, default: str | None) -> pa.Array:
    """Return UUIDs in Kafka's form: URL-safe base 64 of the sixteen bytes, without padding."""
    count = len(begins)
    letters = np.empty((count, _TEXT_BYTES), np.uint8)
    loops.base64(data, begins, _LETTERS, letters)
    absent = begins == ABSENT
    if default is not None and absent.any():
        letters[absent] = np.frombuffer(default.encode(), np.uint8)
    offsets = np.arange(0, _TEXT_BYTES * (count + 1), _TEXT_BYTES, dtype=np.int32)
    nulls = _validity(absent) if default is None and absent.any() else None
    buffers = [nulls, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), count, buffers)
