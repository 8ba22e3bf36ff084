"""Compiles a message declaration to an encoder: appends byte strings to a list.

Owns writing. Must not know any particular message.
Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 (compact forms, tagged fields).

Record data is appended as it is, so that it is copied once at most: by the final join, or not at all when
the parts go to a gathering write. Fields that an expression can write are appended together, in one statement;
the record of a partition needs only one.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct, pack
from typing import Any
from uuid import UUID

from quorum_node.schema.primitives import (
    TaggedFields,
    encode_uvarint,
    uuid_to_bytes,
    uuids_to_bytes,
)
from quorum_node.schema.schema import (
    ANY_UUID,
    STRING,
    UUID_TYPE,
    Array,
    FieldSpec,
    Fixed,
    Message,
    Variable,
    WireType,
)
from quorum_node.schema.source import SHARED_ARRAYS, SHORT_ARRAY, Source, wire_fields

Part = bytes | memoryview
Encoder = Callable[[Any, list[Part]], None]
"""(message, list of parts) -> None."""


_SHORTENED, _MAX_MESSAGE_CHARACTERS = "error_message", 8_000
"""A text for people that quotes names of the request. It is limited, as clients can't decode more than 32767 bytes."""
_NULL_STRUCTURE, _STRUCTURE = b"\xff", b"\x01"
"""The byte before a nullable structure."""
_COMPACT_NULL = b"\0"
_NULL_STRING = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"
_NO_TAGS = b"\0"


class FieldNotInVersion(Exception):
    """A field that must not be dropped has a value that the version can't express: a bug of the caller."""


class _Writing:
    """Lines that append to the list of that name; consecutive expressions become one line."""

    def __init__(self, source: Source, target: str) -> None:
        self.source = source
        self.target = target
        self._expressions: list[str] = []

    def put(self, *expressions: str) -> None:
        """Add expressions, one part each. They are written before the next `flush`."""
        self._expressions += expressions

    def flush(self) -> None:
        """Write the added expressions."""
        if self._expressions:
            self.source.add(f"{self.target} += ({', '.join(self._expressions)},)")
            self._expressions = []


_COMPILED: dict[tuple[Any, int, bool], Encoder] = {}


def encoder(cls: type[Message], version: int, flexible: bool) -> Encoder:
    """The encoder of a structure at a version of the message around it."""
    key = (cls, version, flexible)
    made = _COMPILED.get(key)
    if made is None:
        made = _COMPILED[key] = _compile(cls, version, flexible)
    return made


def _new_source() -> Source:
    return Source(names={"uvarint": encode_uvarint, "NotInVersion": FieldNotInVersion})


def _compile(cls: type[Message], version: int, flexible: bool) -> Encoder:
    source = _new_source()
    with source.block("def encode(m, out):"):
        specs = wire_fields(cls)
        for name, spec in specs:
            if not spec.in_version(version) and not spec.ignorable:
                text = f"{cls.__name__}.{name} in version {version}"
                default = source.name(spec.default)
                source.add(f"if m.{name} != {default}: raise NotInVersion('{text}')")
        present = [(n, s) for n, s in specs if s.in_version(version)]
        writing = _Writing(source, "out")
        _emit_plain(writing, [(n, s) for n, s in present if s.tag is None], version, flexible)
        if flexible:
            tagged = sorted(((n, s) for n, s in present if s.tag is not None), key=_tag)
            _put_tagged(writing, tagged, version)
        writing.flush()
        source.add("return None")
    return source.function("encode")


def _tag(named: tuple[str, FieldSpec]) -> int:
    return named[1].tag or 0


def _emit_plain(
    writing: _Writing, specs: list[tuple[str, FieldSpec]], version: int, flexible: bool
) -> None:
    run: list[tuple[str, Fixed]] = []
    for name, spec in specs:
        if isinstance(spec.type, Fixed):
            run.append((f"m.{name}", spec.type))
            continue
        _put_run(writing, run)
        run = []
        value = f"m.{name}"
        if name == _SHORTENED:
            value = f"{value} and {value}[:{_MAX_MESSAGE_CHARACTERS}]"
        _emit_value(writing, value, spec.type, spec.nullable_in(version), version, flexible)
    _put_run(writing, run)


def _put_run(writing: _Writing, run: list[tuple[str, Fixed]]) -> None:
    if not run:
        return
    writing.put(_packed(writing.source, run))


def _packed(source: Source, run: list[tuple[str, Fixed]]) -> str:
    """An expression for the bytes of fields of fixed size."""
    pack = source.name(Struct(">" + "".join(kind.code for _, kind in run)).pack)
    to_bytes = source.name(uuid_to_bytes)
    forms = {id(UUID_TYPE): f"{to_bytes}({{}})", id(ANY_UUID): "{}.int.to_bytes(16, 'big')"}
    values = [forms.get(id(kind), "{}").format(v) for v, kind in run]
    return f"{pack}({', '.join(values)})"


def _emit_value(
    writing: _Writing, value: str, kind: WireType, nullable: bool, version: int, flexible: bool
) -> None:
    if isinstance(kind, Fixed):
        _put_run(writing, [(value, kind)])
    elif isinstance(kind, Array) and isinstance(kind.element, Fixed):
        _put_array_of_fixed(writing, value, kind.element, nullable, flexible)
    elif isinstance(kind, Variable | Array):
        _emit_nullable(writing, value, kind, nullable, version, flexible)
    else:
        writing.flush()
        nested = writing.source.name(encoder(kind, version, flexible))
        if not nullable:
            writing.source.add(f"{nested}({value}, {writing.target})")
            return
        with writing.source.block(f"if {value} is None:"):
            writing.put(writing.source.name(_NULL_STRUCTURE))
            writing.flush()
        with writing.source.block("else:"):
            writing.put(writing.source.name(_STRUCTURE))
            writing.flush()
            writing.source.add(f"{nested}({value}, {writing.target})")


def _emit_nullable(
    writing: _Writing,
    value: str,
    kind: Variable | Array,
    nullable: bool,
    version: int,
    flexible: bool,
) -> None:
    """A nullable string, bytes, or array whose elements are written one by one."""
    source, variable = writing.source, writing.source.variable()
    if not nullable:
        source.add(f"{variable} = {value}")
        source.add(f"if {variable} is None: raise NotInVersion('null')")
        _emit_not_null(writing, variable, kind, version, flexible)
        return
    writing.flush()
    source.add(f"{variable} = {value}")
    with source.block(f"if {variable} is None:"):
        writing.put(source.name(_null(flexible, _NULL_STRING if kind is STRING else _NULL)))
        writing.flush()
    with source.block("else:"):
        _emit_not_null(writing, variable, kind, version, flexible)
        writing.flush()


def _null(flexible: bool, otherwise: bytes) -> bytes:
    return _COMPACT_NULL if flexible else otherwise


def _emit_not_null(
    writing: _Writing, value: str, kind: Variable | Array, version: int, flexible: bool
) -> None:
    source = writing.source
    if isinstance(kind, Variable):
        if kind is STRING:
            source.add(f"{value} = {value}.encode()")
        layout = ">h" if kind is STRING else ">i"
        writing.put(_length(source, value, layout, flexible), value)
        return
    writing.put(_length(source, value, ">i", flexible))
    writing.flush()
    item = source.variable()
    with source.block(f"for {item} in {value}:"):
        _emit_value(writing, item, kind.element, False, version, flexible)
        writing.flush()


def _length(source: Source, value: str, layout: str, flexible: bool) -> str:
    if flexible:
        return f"uvarint(len({value}) + 1)"
    return f"{source.name(Struct(layout).pack)}(len({value}))"


def _put_array_of_fixed(
    writing: _Writing, value: str, element: Fixed, nullable: bool, flexible: bool
) -> None:
    source, variable = writing.source, writing.source.variable()
    if element is ANY_UUID:
        writing.put(f"{source.name(_uuid_array(nullable, flexible))}({value})")
        return
    every = source.name(_fixed_array(element, nullable, flexible))
    if element is UUID_TYPE:
        writing.put(f"{every}({value})")
        return
    short = source.name(_short_array(element, flexible))
    empty = source.name(_short_array(element, flexible)(()))
    writing.put(
        f"{short}({variable}) if ({variable} := {value}) and len({variable}) < {SHORT_ARRAY}"
        f" else {empty} if {variable} == () else {every}({variable})"
    )


@cache
def _short_array(kind: Fixed, flexible: bool) -> Callable[[tuple[Any, ...]], bytes]:
    """Length and elements of a short array of numbers, cached as in the decoder, as few values repeat."""

    @lru_cache(maxsize=SHARED_ARRAYS)
    def short_array(values: tuple[Any, ...]) -> bytes:
        return _array_length(len(values), flexible) + pack(f">{len(values)}{kind.code}", *values)

    return short_array


@cache
def _fixed_array(
    kind: Fixed, nullable: bool, flexible: bool
) -> Callable[[tuple[Any, ...] | None], bytes]:
    """Any array of numbers, or of nullable UUIDs."""

    def fixed_array(values: tuple[Any, ...] | None) -> bytes:
        if values is None:
            return _null_array(nullable, flexible)
        length = _array_length(len(values), flexible)
        if kind is UUID_TYPE:
            return length + b"".join(map(uuid_to_bytes, values))
        return length + pack(f">{len(values)}{kind.code}", *values)

    return fixed_array


@cache
def _uuid_array(nullable: bool, flexible: bool) -> Callable[[tuple[UUID, ...] | None], bytes]:
    """Arrays of UUIDs. Those shared by the decoder are recognized by identity, as a hash takes longer than encoding."""
    known: dict[int, tuple[tuple[UUID, ...], bytes]] = {}

    def uuid_array(values: tuple[UUID, ...] | None) -> bytes:
        found = known.get(id(values))
        if found is not None and found[0] is values:
            return found[1]
        if values is None:
            return _null_array(nullable, flexible)
        made = _array_length(len(values), flexible) + uuids_to_bytes(values)
        if len(known) >= SHARED_ARRAYS:
            known.clear()
        known[id(values)] = (values, made)
        return made

    return uuid_array


def _null_array(nullable: bool, flexible: bool) -> bytes:
    if not nullable:
        raise FieldNotInVersion("null")
    return _null(flexible, _NULL)


def _array_length(count: int, flexible: bool) -> bytes:
    return encode_uvarint(count + 1) if flexible else pack(">i", count)


def _put_tagged(writing: _Writing, specs: list[tuple[str, FieldSpec]], version: int) -> None:
    """Append the tagged fields. Usually all have their default."""
    source = writing.source
    usual = [f"m.{name} is {source.name(spec.default)}" for name, spec in specs]
    tags = source.name(_tagged(specs, version))
    writing.put(f"{_NO_TAGS!r} if {' and '.join([*usual, 'not m.tagged_fields'])} else {tags}(m)")


def _tagged(specs: list[tuple[str, FieldSpec]], version: int) -> Callable[[Any], bytes]:
    """A tagged field is written only if it differs from its default."""
    source = _new_source()
    with source.block("def tagged_fields(m):"):
        source.add("tagged = {}")
        for name, spec in specs:
            value, default = source.variable(), source.name(spec.default)
            source.add(f"{value} = m.{name}")
            with source.block(f"if {value} is not {default} and {value} != {default}:"):
                assert spec.tag is not None
                tag = encode_uvarint(spec.tag)
                if isinstance(spec.type, Fixed):
                    size = encode_uvarint(spec.type.size_bytes)
                    found = _packed(source, [(value, spec.type)])
                    source.add(f"tagged[{spec.tag}] = {tag + size!r} + {found}")
                    continue
                writing = _Writing(source, "parts")
                source.add("parts = []")
                nullable = spec.nullable_in(version)
                _emit_value(writing, value, spec.type, nullable, version, True)
                writing.flush()
                source.add(f"{value} = {source.name(b''.join)}(parts)")
                source.add(f"tagged[{spec.tag}] = {tag!r} + uvarint(len({value})) + {value}")
        source.add("if m.tagged_fields:")
        source.add(f"    {source.name(_add_kept)}(tagged, m.tagged_fields)")
        source.add("    tagged = dict(sorted(tagged.items()))")
        source.add(f"return uvarint(len(tagged)) + {source.name(b''.join)}(tagged.values())")
    return source.function("tagged_fields")


def _add_kept(tagged: dict[int, bytes], kept: TaggedFields) -> None:
    """Merge unknown fields with the known ones, each with its tag and size."""
    for tag, data in kept:
        tagged.setdefault(tag, encode_uvarint(tag) + encode_uvarint(len(data)) + data)
