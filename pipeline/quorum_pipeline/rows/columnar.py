"""Where the fields of many records of one type and version lie. PURE.

Owns the programs by which the compiled loops (`loops.py`) go through records: made from declarations, so a record that is
declared anew is read at once. What comes out is not values but places: where a field begins in each record, and how many elements
it has. `column_arrays.py` makes columns of them.

Only what is in every record of a busy cluster is read here: fixed fields, strings, arrays of fixed elements, tagged fields, lengths
of up to three bytes. Whatever else there is (a structure, bytes, a longer length), and whatever is damaged, raises `Unusual`: then
the decoder of the node has the word. So nothing is decided here that it would decide otherwise.

Source: KIP-482 (compact forms, tagged fields); KIP-631, "Record format".
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from quorum_node.schema.schema import (
    STRING,
    UUID_TYPE,
    Array,
    FieldSpec,
    Fixed,
    Message,
    WireType,
)
from quorum_node.schema.source import wire_fields
from quorum_pipeline.rows.loops import ABSENT, COUNTED, FIXED, NULLABLE, Bytes, Numbers, fields

Indexes = npt.NDArray[np.intp]


class Unusual(Exception):
    """Not for this way: the reference path says what it is, or what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Places:
    """A field of many records: where its value begins, or ABSENT, which means its default.

    `counts`: bytes of a string, elements of an array, or NULL; of no meaning for a fixed type.
    """

    spec: FieldSpec
    begins: Numbers
    counts: Numbers
    is_everywhere: bool
    """None is ABSENT."""


Fields = dict[str, Places | FieldSpec]
"""By name; a field that no record has is its declaration, for the default."""


@dataclass(frozen=True, slots=True)
class _Program:
    names: tuple[str, ...]
    specs: tuple[FieldSpec, ...]
    numbers: Numbers
    left_out: dict[str, FieldSpec]


def fields_of(
    cls: type[Message], version: int, data: Bytes, begins: Numbers, ends: Numbers
) -> Fields:
    """The fields of records whose bodies are `data[begins[i]:ends[i]]`. Raises Unusual."""
    # A class can be hashed, which the type checker takes for what its objects can.
    program = _program(cls, version)  # type: ignore[arg-type]
    if program is None:
        raise Unusual
    shape = len(program.names), len(begins)
    places, counts = np.full(shape, ABSENT, np.int64), np.empty(shape, np.int64)
    present = np.zeros(len(program.names), np.int64)
    if not fields(data, begins, ends, program.numbers, places, counts, present):
        raise Unusual
    found: Fields = dict(program.left_out)
    for field, (name, spec) in enumerate(zip(program.names, program.specs, strict=True)):
        is_everywhere = bool(present[field] == len(begins))
        row = Places(spec, places[field], counts[field], is_everywhere)
        found[name] = row if present[field] else spec
    return found


@cache
def _program(cls: type[Message], version: int) -> _Program | None:
    """None: it has a field of a type that the loops don't read."""
    left_out = {name: spec for name, spec in wire_fields(cls) if not spec.in_version(version)}
    declared = [(name, spec) for name, spec in wire_fields(cls) if name not in left_out]
    # Stable: fields without a tag come first, in the order of the wire.
    declared.sort(key=lambda each: each[1].tag is not None)
    numbers = []
    for _, spec in declared:
        size_bytes = _element_bytes(spec.type)
        if size_bytes is None:
            return None
        counted = NULLABLE if spec.nullable_in(version) else COUNTED
        form = FIXED if isinstance(spec.type, Fixed) else counted
        numbers.append((-1 if spec.tag is None else spec.tag, size_bytes, form))
    return _Program(
        tuple(name for name, _ in declared),
        tuple(spec for _, spec in declared),
        np.array(numbers, np.int64).reshape(-1, 3),
        left_out,
    )


def _element_bytes(kind: WireType) -> int | None:
    if kind == STRING:
        return 1
    element = kind.element if isinstance(kind, Array) else kind
    if not isinstance(element, Fixed) or element is UUID_TYPE:
        return None
    return element.size_bytes
