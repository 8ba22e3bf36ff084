"""Positions of the fields of many records of one type and version. PURE.

Owns the programs for the compiled loops (`loops.py`), generated from the declarations of records. The result is
positions and numbers of elements; `column_arrays.py` makes columns from them. Supported are fixed fields,
strings, arrays of fixed elements or simple structures, tagged fields, and lengths of up to three bytes. Anything
else, and anything damaged, raises `Unsupported`; then the node's decoder is used. Source: KIP-482 (compact forms, tagged
fields); KIP-631, "Record format".
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
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compiled import Bytes, Numbers
from quorum_pipeline.rows.loops import (
    ABSENT,
    COUNTED,
    FIXED,
    NULLABLE,
    fields,
    structures,
)

Indexes = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Places:
    """A field of many records. `begins`: where its value begins, or ABSENT for its default.

    `counts`: number of bytes of a string or of elements of an array, or NULL; undefined for a fixed type.
    """

    spec: FieldSpec
    version: int
    begins: Numbers
    counts: Numbers
    is_everywhere: bool
    """Whether no record has ABSENT."""


Fields = dict[str, Places | FieldSpec]
"""Fields by name; for a field that no record has, its declaration, which has the default."""


@dataclass(frozen=True, slots=True)
class _Program:
    names: tuple[str, ...]
    specs: tuple[FieldSpec, ...]
    numbers: Numbers
    left_out: dict[str, FieldSpec]


def fields_of(
    cls: type[Message], version: int, data: Bytes, begins: Numbers, ends: Numbers
) -> Fields:
    """Return the fields of records whose bodies are `data[begins[i]:ends[i]]`. Raises Unsupported."""
    # The class is hashable; the type checker applies the rule for its instances.
    program = _program(cls, version)  # type: ignore[arg-type]
    if program is None:
        raise Unsupported
    shape = len(program.names), len(begins)
    places, counts = np.full(shape, ABSENT, np.int64), np.empty(shape, np.int64)
    present = np.zeros(len(program.names), np.int64)
    if not fields(data, begins, ends, program.numbers, places, counts, present):
        raise Unsupported
    found: Fields = dict(program.left_out)
    for field, (name, spec) in enumerate(zip(program.names, program.specs, strict=True)):
        is_everywhere = bool(present[field] == len(begins))
        row = Places(spec, version, places[field], counts[field], is_everywhere)
        found[name] = row if present[field] else spec
    return found


def fields_of_structures(
    field: Places, data: Bytes, begins: Numbers, offsets: npt.NDArray[np.int32]
) -> Fields:
    """Return the fields of the structures in arrays: array i begins at `begins[i]` and has elements `offsets[i]` to
    `offsets[i + 1]` (exclusive).
    """
    program = _inner_program(field.spec.type, field.version)
    assert program is not None
    shape = len(program.names), int(offsets[-1])
    places, counts = np.empty(shape, np.int64), np.empty(shape, np.int64)
    structures(data, begins, offsets, program.numbers, places, counts)
    found: Fields = dict(program.left_out)
    for row, (name, spec) in enumerate(zip(program.names, program.specs, strict=True)):
        found[name] = Places(spec, field.version, places[row], counts[row], is_everywhere=True)
    return found


@cache
def _program(cls: type[Message], version: int) -> _Program | None:
    """Return the program of a record type; None if a field has a type that the loops don't support."""
    left_out = {name: spec for name, spec in wire_fields(cls) if not spec.in_version(version)}
    declared = [(name, spec) for name, spec in wire_fields(cls) if name not in left_out]
    # The sort is stable: fields without a tag come first, in wire order.
    declared.sort(key=lambda each: each[1].tag is not None)
    numbers: list[tuple[int, ...]] = []
    behind: list[tuple[int, ...]] = []
    for _, spec in declared:
        inner = _inner_program(spec.type, version)
        size_bytes = _element_bytes(spec.type) if inner is None else 0
        if size_bytes is None:
            return None
        counted = NULLABLE if spec.nullable_in(version) else COUNTED
        form = FIXED if isinstance(spec.type, Fixed) else counted
        tag = -1 if spec.tag is None else spec.tag
        rows = [] if inner is None else [tuple(map(int, row)) for row in inner.numbers]
        numbers.append((tag, size_bytes, form, len(declared) + len(behind), len(rows)))
        behind += rows
    return _Program(
        tuple(name for name, _ in declared),
        tuple(spec for _, spec in declared),
        np.array(numbers + behind, np.int64).reshape(-1, 5),
        left_out,
    )


def _inner_program(kind: WireType, version: int) -> _Program | None:
    """Return the program of the structures in an array; None if the elements are no structures, or unsupported ones."""
    if not isinstance(kind, Array) or not isinstance(kind.element, type):
        return None
    # See `fields_of`.
    program = _program(kind.element, version)  # type: ignore[arg-type]
    if program is None or any(tag >= 0 or count for tag, _, _, _, count in program.numbers):
        return None
    return program


def _element_bytes(kind: WireType) -> int | None:
    if kind == STRING:
        return 1
    element = kind.element if isinstance(kind, Array) else kind
    if not isinstance(element, Fixed) or element is UUID_TYPE:
        return None
    return element.size_bytes
