"""Compiles a message declaration to a decoder: straight-line Python over one buffer.

Owns reading. Must not know any particular message.
Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 (compact forms, tagged fields).

Every length is compared with the remaining bytes before anything is allocated, and elements are
counted over the whole message: an element of three bytes becomes an object of a hundred, so one frame
could otherwise allocate a gigabyte. Reading past the end is reported as MalformedMessage.
Runs of fixed-size fields become one struct call.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct, unpack, unpack_from
from typing import Any

from quorum_node.schema.primitives import (
    Buffer,
    any_uuid_from_bytes,
    read_uvarint,
    uuid_from_bytes,
    uuids_from_bytes,
)
from quorum_node.schema.schema import (
    ANY_UUID,
    STRING,
    UUID_TYPE,
    Array,
    FieldSpec,
    Fixed,
    MalformedMessage,
    Message,
    Variable,
    WireType,
)
from quorum_node.schema.source import SHARED_ARRAYS, SHORT_ARRAY, Source, wire_fields

MAX_ELEMENTS = 50_000
"""Limit of array elements and unknown tagged fields of one message, all arrays together."""

MAX_STRING_BYTES = 32_767

Decoder = Callable[[Buffer, int, int, list[int]], tuple[Any, int]]
"""(buffer, position, length of the buffer, [remaining elements]) -> (message, next position)."""


_COMPILED: dict[tuple[Any, int, bool, bool], Decoder] = {}


def decoder(
    cls: type[Message], version: int, flexible: bool, *, limits_strings: bool = True
) -> Decoder:
    """The decoder of a structure at a version of the message around it.

    `limits_strings`: refuse strings longer than MAX_STRING_BYTES; False for committed records, as a log may have them.
    """
    key = (cls, version, flexible, limits_strings)
    made = _COMPILED.get(key)
    if made is None:
        made = _COMPILED[key] = _compile(cls, version, flexible, limits_strings)
    return made


def _compile(cls: type[Message], version: int, flexible: bool, limits_strings: bool) -> Decoder:
    names = {"cls": cls, "uvarint": read_uvarint, "Malformed": MalformedMessage}
    source = Source(names=names, limits_strings=limits_strings)
    with source.block("def decode(b, p, n, q):"):
        present = [(n, s) for n, s in wire_fields(cls) if s.in_version(version)]
        _emit_plain(source, [(n, s) for n, s in present if s.tag is None], version, flexible)
        if flexible:
            _emit_tagged(source, [(n, s) for n, s in present if s.tag is not None], version)
        _emit_made(source, cls, {name for name, _ in present}, flexible)
    return source.function("decode")


def _emit_made(source: Source, cls: type[Message], present: set[str], flexible: bool) -> None:
    """Assign field by field: a call with a dozen named arguments takes several times as long."""
    source.add(f"m = {source.name(object.__new__)}(cls)")
    for name, spec in wire_fields(cls):
        value = f"f_{name}" if name in present else source.name(spec.default)
        source.add(f"m.{name} = {value}")
    source.add(f"m.tagged_fields = {'kept' if flexible else '()'}", "return m, p")


def smallest_bytes(kind: WireType, version: int, flexible: bool) -> int:
    """Minimum size of a value in bytes: limits the length of an array of them."""
    if isinstance(kind, Fixed):
        return kind.size_bytes
    if isinstance(kind, Array):
        return 1 if flexible else 4
    if isinstance(kind, Variable):
        return 1 if flexible else 2
    plain = [s for _, s in wire_fields(kind) if s.tag is None and s.in_version(version)]
    return sum(smallest_bytes(s.type, version, flexible) for s in plain) + int(flexible)


def _emit_plain(
    source: Source, specs: list[tuple[str, FieldSpec]], version: int, flexible: bool
) -> None:
    run: list[tuple[str, Fixed]] = []
    for name, spec in specs:
        if isinstance(spec.type, Fixed):
            run.append((f"f_{name}", spec.type))
            continue
        _emit_run(source, run)
        run = []
        _emit_value(source, f"f_{name}", spec.type, spec.nullable_in(version), version, flexible)
    _emit_run(source, run)


def _emit_run(source: Source, run: list[tuple[str, Fixed]]) -> None:
    if not run:
        return
    layout = Struct(">" + "".join(kind.code for _, kind in run))
    unpack = source.name(layout.unpack_from)
    source.add(f"{', '.join(target for target, _ in run)}, = {unpack}(b, p)")
    source.add(f"p += {layout.size}")
    for target, kind in run:
        if kind is UUID_TYPE:
            source.add(f"{target} = {source.name(uuid_from_bytes)}({target})")
        elif kind is ANY_UUID:
            source.add(f"{target} = {source.name(any_uuid_from_bytes)}({target})")


def _emit_value(
    source: Source, target: str, kind: WireType, nullable: bool, version: int, flexible: bool
) -> None:
    if isinstance(kind, Fixed):
        _emit_run(source, [(target, kind)])
    elif isinstance(kind, Variable):
        _emit_variable(source, target, kind, nullable, flexible)
    elif isinstance(kind, Array):
        _emit_array(source, target, kind, nullable, version, flexible)
    else:
        decode = source.name(decoder(kind, version, flexible, limits_strings=source.limits_strings))
        if not nullable:
            source.add(f"{target}, p = {decode}(b, p, n, q)")
            return
        marker = source.variable()
        source.add(f"{marker} = b[p]", "p += 1")
        with source.block(f"if {marker} > 127:"):
            source.add(f"{target} = None")
        with source.block("else:"):
            source.add(f"{target}, p = {decode}(b, p, n, q)")


def _emit_length(source: Source, flexible: bool, layout: str) -> str:
    """Read a length into a variable; null becomes -1."""
    size = source.variable()
    if flexible:
        source.add(f"{size} = b[p]", "p += 1")
        source.add(f"if {size} > 127: {size}, p = uvarint(b, p - 1)")
        source.add(f"{size} -= 1")
    else:
        struct = Struct(layout)
        source.add(f"{size}, = {source.name(struct.unpack_from)}(b, p)", f"p += {struct.size}")
    return size


def _emit_null(source: Source, target: str, size: str, nullable: bool, word: str = "if") -> None:
    with source.block(f"{word} {size} < 0:"):
        if nullable:
            source.add(f"if {size} != -1: raise Malformed('negative length')")
            source.add(f"{target} = None")
        else:
            source.add(f"raise Malformed('null in {target[2:]}')")


def _emit_variable(
    source: Source, target: str, kind: Variable, nullable: bool, flexible: bool
) -> None:
    size = _emit_length(source, flexible, ">h" if kind is STRING else ">i")
    _emit_null(source, target, size, nullable)
    with source.block("else:"):
        end = source.variable()
        source.add(f"{end} = p + {size}")
        source.add(f"if {end} > n: raise Malformed('{target[2:]} runs past the end')")
        if flexible and kind is STRING and source.limits_strings:
            # Kafka's limit in every version. Other versions and the records of groups can't express longer ones.
            source.add(
                f"if {size} > {MAX_STRING_BYTES}: raise Malformed('{target[2:]} is too long')"
            )
        convert = {"string": "str(b[p:{0}], 'utf-8')", "bytes": "bytes(b[p:{0}])"}
        expression = convert.get(kind.name, "memoryview(b)[p:{0}]").format(end)
        source.add(f"{target} = {expression}", f"p = {end}")


def _emit_array(
    source: Source, target: str, kind: Array, nullable: bool, version: int, flexible: bool
) -> None:
    size = _emit_length(source, flexible, ">i")
    source.add(f"if not {size}: {target} = ()")
    _emit_null(source, target, size, nullable, "elif")
    with source.block("else:"):
        least = smallest_bytes(kind.element, version, flexible)
        source.add(f"if {size} * {least} > n - p: raise Malformed('{target[2:]} is too long')")
        source.add(f"q[0] -= {size}", "if q[0] < 0: raise Malformed('too many elements')")
        if kind.element is ANY_UUID:
            _emit_shared(source, target, uuids_from_bytes, f"{size} * 16")
            return
        if isinstance(kind.element, Fixed) and kind.element is not UUID_TYPE:
            _emit_fixed_elements(source, target, kind.element, size)
            return
        items, item = source.variable(), source.variable()
        source.add(f"{items} = []")
        with source.block(f"for _ in range({size}):"):
            _emit_value(source, item, kind.element, False, version, flexible)
            source.add(f"{items}.append({item})")
        source.add(f"{target} = tuple({items})")


def _emit_fixed_elements(source: Source, target: str, kind: Fixed, size: str) -> None:
    """Read all elements by one struct call; equal short arrays share one object."""
    with source.block(f"if {size} < {SHORT_ARRAY}:"):
        _emit_shared(source, target, _numbers(kind), f"{size} * {kind.size_bytes}")
    with source.block("else:"):
        source.add(f"{target} = {source.name(unpack_from)}(f'>{{{size}}}{kind.code}', b, p)")
        source.add(f"p += {size} * {kind.size_bytes}")


def _emit_shared(
    source: Source, target: str, made: Callable[[bytes], tuple[Any, ...]], size_bytes: str
) -> None:
    end = source.variable()
    source.add(f"{end} = p + {size_bytes}")
    source.add(f"{target} = {source.name(made)}(bytes(b[p:{end}]))", f"p = {end}")


@cache
def _numbers(kind: Fixed) -> Callable[[bytes], tuple[Any, ...]]:
    """Elements of one type from their bytes."""
    size_bytes, code = kind.size_bytes, kind.code

    @lru_cache(maxsize=SHARED_ARRAYS)
    def numbers(data: bytes) -> tuple[Any, ...]:
        return unpack(f">{len(data) // size_bytes}{code}", data)

    return numbers


def _emit_tagged(source: Source, specs: list[tuple[str, FieldSpec]], version: int) -> None:
    for name, spec in specs:
        source.add(f"f_{name} = {source.name(spec.default)}")
    source.add("kept = ()", "c = b[p]", "p += 1")
    with source.block("if c:"):
        source.add("if c > 127: c, p = uvarint(b, p - 1)", "last, unknown = -1, []", "q[0] -= c")
        source.add("if q[0] < 0: raise Malformed('too many tagged fields')")
        with source.block("for _ in range(c):"):
            for name in ("tag", "size"):
                source.add(f"{name} = b[p]", "p += 1")
                source.add(f"if {name} > 127: {name}, p = uvarint(b, p - 1)")
            source.add("end = p + size")
            source.add("if tag <= last or end > n: raise Malformed('tagged fields')", "last = tag")
            word = "if"
            for name, spec in sorted(specs, key=lambda named: named[1].tag or 0):
                with source.block(f"{word} tag == {spec.tag}:"):
                    nullable = spec.nullable_in(version)
                    _emit_value(source, f"f_{name}", spec.type, nullable, version, True)
                    source.add(f"if p != end: raise Malformed('size of tagged field {spec.tag}')")
                word = "elif"
            with source.block("else:" if specs else "if True:"):
                source.add("unknown.append((tag, bytes(b[p:end])))", "p = end")
        source.add("kept = tuple(unknown)")
