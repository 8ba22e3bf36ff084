"""Where the fields of many records of one type and version lie, all records at once. PURE.

The idea: Python pays for every step, numpy for every column. So a step is taken for all records together: an array holds the
position that each of them has reached, and reading a field moves all positions at once. What comes out is not values but
places: where a field begins in each record, and how many elements it has. `column_arrays.py` makes columns of them.

The way through a record is that of its declaration, so a record that is declared anew is read at once. Only what is in every
record of a busy cluster is read here: fixed fields, strings, arrays of fixed elements, tagged fields, lengths of up to two
bytes. Whatever else there is (a structure, bytes, a longer length), and whatever is damaged, raises `Unusual`: then
the decoder of the node has the word. So nothing is decided here that it would decide otherwise.

Source: KIP-482 (compact forms, tagged fields); KIP-631, "Record format".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from quorum_node.schema.schema import (
    STRING,
    UUID_TYPE,
    Array,
    FieldSpec,
    Fixed,
    Message,
    Variable,
    WireType,
)
from quorum_node.schema.source import wire_fields

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Indexes = npt.NDArray[np.intp]

READ_AHEAD_BYTES = 16
"""So many bytes have to stand behind the last record: a length is read before it is known whether it is there."""


class Unusual(Exception):
    """Not for this way: the reference path says what it is, or what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Places:
    """A field of many records: where its value begins.

    `counts`: bytes of a string, elements of an array, 0 where it is null; None for a fixed type. `nulls` None: none is null.
    """

    type: WireType
    begins: Positions
    counts: Positions | None = None
    nulls: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class TaggedPlaces:
    """A tagged field: the places in those records that have it; `indexes` says which they are. The others have the default."""

    spec: FieldSpec
    parts: tuple[tuple[Indexes, Places], ...]


Fields = dict[str, Places | TaggedPlaces | FieldSpec]
"""By name; a field that the version does not have is its declaration, for the default."""


def fields_of(
    cls: type[Message], version: int, data: Bytes, begins: Positions, ends: Positions
) -> Fields:
    """The fields of records whose bodies are `data[begins[i]:ends[i]]`. Raises Unusual."""
    found: Fields = {}
    position = begins
    tagged: dict[int, tuple[str, FieldSpec]] = {}
    for name, spec in wire_fields(cls):
        if not spec.in_version(version):
            found[name] = spec
        elif spec.tag is not None:
            tagged[spec.tag] = (name, spec)
        else:
            places, position = _value(data, position, ends, spec, version)
            found[name] = places
    return found | _tagged(data, position, ends, tagged, version)


def uvarints(data: Bytes, position: Positions) -> tuple[Positions, Positions]:
    """The numbers there, and what follows them. Raises Unusual on one of more than two bytes."""
    low = data[position].astype(np.int64)
    is_long = low >= 0x80
    if not is_long.any():
        return low, position + 1
    high = data[position + 1].astype(np.int64)
    if (is_long & (high >= 0x80)).any():
        raise Unusual
    return np.where(is_long, low & 0x7F | high << 7, low), position + 1 + is_long


def _value(
    data: Bytes, position: Positions, ends: Positions, spec: FieldSpec, version: int
) -> tuple[Places, Positions]:
    kind, nulls = spec.type, None
    if kind is UUID_TYPE:
        raise Unusual
    if isinstance(kind, Fixed):
        return _reached(Places(kind, position), position + kind.size_bytes, ends)
    size_bytes = _element_bytes(kind)
    counts, position = uvarints(data, position)
    counts = counts - 1
    if (counts < 0).any():
        if not spec.nullable_in(version):
            raise Unusual
        nulls = counts < 0
        counts = np.where(nulls, 0, counts)
    return _reached(Places(kind, position, counts, nulls), position + counts * size_bytes, ends)


def _element_bytes(kind: WireType) -> int:
    if isinstance(kind, Variable) and kind == STRING:
        return 1
    if not isinstance(kind, Array) or not isinstance(kind.element, Fixed):
        raise Unusual
    if kind.element is UUID_TYPE:
        raise Unusual
    return kind.element.size_bytes


def _reached(places: Places, position: Positions, ends: Positions) -> tuple[Places, Positions]:
    if (position > ends).any():
        raise Unusual
    return places, position


def _tagged(
    data: Bytes,
    position: Positions,
    ends: Positions,
    specs: dict[int, tuple[str, FieldSpec]],
    version: int,
) -> Fields:
    """One step for the first tagged field of every record, one for the second, and so on; they end where the record does."""
    parts: dict[int, list[tuple[Indexes, Places]]] = {tag: [] for tag in specs}
    counts, position = uvarints(data, position)
    last = np.full(len(position), -1, np.int64)
    for step in range(int(counts.max(initial=0))):
        some = np.flatnonzero(counts > step)
        tags, at = uvarints(data, position[some])
        sizes, at = uvarints(data, at)
        behind = at + sizes
        if (tags <= last[some]).any() or (behind > ends[some]).any():
            raise Unusual
        for tag in np.unique(tags).tolist():
            if tag not in specs:
                continue
            chosen = np.flatnonzero(tags == tag)
            places, reached = _value(data, at[chosen], behind[chosen], specs[tag][1], version)
            if (reached != behind[chosen]).any():
                raise Unusual
            parts[tag].append((some[chosen], places))
        last[some], position[some] = tags, behind
    if (position != ends).any():
        raise Unusual
    return {name: TaggedPlaces(spec, tuple(parts[tag])) for tag, (name, spec) in specs.items()}


def numbers(data: Bytes, kind: Fixed, begins: Positions) -> npt.NDArray[Any]:
    """What stands at these positions, in the byte order of this machine; UUIDs as rows of 16 bytes."""
    layout = np.dtype(f">{_CODES.get(kind.code, kind.code)}")
    # One element per byte, each overlapping the next ones: an element may begin anywhere.
    everywhere: npt.NDArray[Any] = np.ndarray(
        (max(0, len(data) - layout.itemsize + 1),), layout, data.data, strides=(1,)
    )
    found = everywhere[begins]
    if kind.code == "16s":
        return found.view(np.uint8).reshape(-1, 16)
    return found.astype(layout.newbyteorder("="))


_CODES = {"?": "u1", "b": "i1", "h": "i2", "H": "u2", "i": "i4", "q": "i8", "d": "f8", "16s": "V16"}
