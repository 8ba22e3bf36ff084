"""Compiles a message declaration to an encoder: appends byte strings to a list.

Owns writing. Must not know any particular message.
Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 (compact forms, tagged fields).

Record data is appended as it is, so that it is copied once at most: by the final join, or not at all when
the parts go to a gathering write.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct, pack
from typing import Any

from quorum_node.schema.primitives import (
    encode_tagged_fields,
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
Encoder = Callable[[Any, Callable[[Part], None]], None]
"""(message, append of the list of parts) -> None."""


_COMPACT_NULL = b"\0"
_NULL_STRING = b"\xff\xff"
_NULL = b"\xff\xff\xff\xff"


class FieldNotInVersion(Exception):
    """A field that may not be dropped has a value, but the version can't carry it: the caller's mistake."""


_COMPILED: dict[tuple[Any, int, bool], Encoder] = {}


def encoder(cls: type[Message], version: int, flexible: bool) -> Encoder:
    """The encoder of a structure at a version of the message around it."""
    key = (cls, version, flexible)
    made = _COMPILED.get(key)
    if made is None:
        made = _COMPILED[key] = _compile(cls, version, flexible)
    return made


def _compile(cls: type[Message], version: int, flexible: bool) -> Encoder:
    source = Source(names={"uvarint": encode_uvarint, "NotInVersion": FieldNotInVersion})
    with source.block("def encode(m, add):"):
        specs = wire_fields(cls)
        for name, spec in specs:
            if not spec.in_version(version) and not spec.ignorable:
                text = f"{cls.__name__}.{name} in version {version}"
                default = source.name(spec.default)
                source.add(f"if m.{name} != {default}: raise NotInVersion('{text}')")
        present = [(n, s) for n, s in specs if s.in_version(version)]
        _emit_plain(source, [(n, s) for n, s in present if s.tag is None], version, flexible)
        if flexible:
            _emit_tagged(source, [(n, s) for n, s in present if s.tag is not None], version)
        source.add("return None")
    return source.function("encode")


def _emit_plain(
    source: Source, specs: list[tuple[str, FieldSpec]], version: int, flexible: bool
) -> None:
    run: list[tuple[str, Fixed]] = []
    for name, spec in specs:
        if isinstance(spec.type, Fixed):
            run.append((f"m.{name}", spec.type))
            continue
        _emit_run(source, run, "add")
        run = []
        value = source.variable()
        source.add(f"{value} = m.{name}")
        nullable = spec.nullable_in(version)
        _emit_value(source, value, spec.type, nullable, version, flexible, "add")
    _emit_run(source, run, "add")


def _emit_run(source: Source, run: list[tuple[str, Fixed]], add: str) -> None:
    if not run:
        return
    pack = source.name(Struct(">" + "".join(kind.code for _, kind in run)).pack)
    to_bytes = source.name(uuid_to_bytes)
    forms = {id(UUID_TYPE): f"{to_bytes}({{}})", id(ANY_UUID): "{}.int.to_bytes(16, 'big')"}
    values = [forms.get(id(kind), "{}").format(v) for v, kind in run]
    source.add(f"{add}({pack}({', '.join(values)}))")


def _emit_value(
    source: Source,
    value: str,
    kind: WireType,
    nullable: bool,
    version: int,
    flexible: bool,
    add: str,
) -> None:
    if isinstance(kind, Fixed):
        _emit_run(source, [(value, kind)], add)
    elif isinstance(kind, Variable | Array):
        with source.block(f"if {value} is None:"):
            if not nullable:
                source.add("raise NotInVersion('null')")
            elif flexible:
                source.add(f"{add}({source.name(_COMPACT_NULL)})")
            else:
                source.add(f"{add}({source.name(_NULL_STRING if kind is STRING else _NULL)})")
        with source.block("else:"):
            if isinstance(kind, Array):
                _emit_array(source, value, kind, version, flexible, add)
            else:
                if kind is STRING:
                    source.add(f"{value} = {value}.encode()")
                _emit_length(source, value, ">h" if kind is STRING else ">i", flexible, add)
                source.add(f"{add}({value})")
    else:
        source.add(f"{source.name(encoder(kind, version, flexible))}({value}, {add})")


def _emit_array(
    source: Source, value: str, kind: Array, version: int, flexible: bool, add: str
) -> None:
    element = kind.element
    if isinstance(element, Fixed) and len(element.code) == 1:
        with source.block(f"if len({value}) < {SHORT_ARRAY}:"):
            source.add(f"{add}({source.name(_short_array(element, flexible))}({value}))")
        with source.block("else:"):
            _emit_length(source, value, ">i", flexible, add)
            source.add(f"{add}({source.name(pack)}(f'>{{len({value})}}{element.code}', *{value}))")
        return
    _emit_length(source, value, ">i", flexible, add)
    if element is ANY_UUID:
        source.add(f"{add}({source.name(uuids_to_bytes)}({value}))")
        return
    item = source.variable()
    with source.block(f"for {item} in {value}:"):
        _emit_value(source, item, element, False, version, flexible, add)


@cache
def _short_array(kind: Fixed, flexible: bool) -> Callable[[tuple[Any, ...]], bytes]:
    """Length and elements of an array of numbers; the same few come again and again, as in the decoder."""

    @lru_cache(maxsize=SHARED_ARRAYS)
    def short_array(values: tuple[Any, ...]) -> bytes:
        length = encode_uvarint(len(values) + 1) if flexible else pack(">i", len(values))
        return length + pack(f">{len(values)}{kind.code}", *values)

    return short_array


def _emit_length(source: Source, value: str, layout: str, flexible: bool, add: str) -> None:
    if flexible:
        source.add(f"{add}(uvarint(len({value}) + 1))")
    else:
        source.add(f"{add}({source.name(Struct(layout).pack)}(len({value})))")


def _emit_tagged(source: Source, specs: list[tuple[str, FieldSpec]], version: int) -> None:
    """A tagged field is written only if it differs from its default."""
    source.add("tagged = None")
    for name, spec in sorted(specs, key=lambda named: named[1].tag or 0):
        value, default = source.variable(), source.name(spec.default)
        source.add(f"{value} = m.{name}")
        with source.block(f"if {value} is not {default} and {value} != {default}:"):
            source.add("if tagged is None: tagged = {}")
            nullable = spec.nullable_in(version)
            _emit_tagged_value(source, value, spec, nullable, version)
    source.add("if m.tagged_fields or tagged and len(tagged) > 127:")
    source.add(f"    add({source.name(encode_tagged_fields)}(tagged, m.tagged_fields))")
    source.add("elif tagged is None: add(b'\\0')")
    with source.block("else:"):
        source.add("add(uvarint(len(tagged)))")
        with source.block("for tag, data in tagged.items():"):
            source.add("add(uvarint(tag) + uvarint(len(data)) + data)")


def _emit_tagged_value(
    source: Source, value: str, spec: FieldSpec, nullable: bool, version: int
) -> None:
    """The bytes of a tagged field; what changes in a partition is mostly a short array, which is at hand."""
    element = spec.type.element if isinstance(spec.type, Array) else None
    word = ""
    if isinstance(element, Fixed) and len(element.code) == 1:
        with source.block(f"if {value} is not None and len({value}) < {SHORT_ARRAY}:"):
            source.add(f"tagged[{spec.tag}] = {source.name(_short_array(element, True))}({value})")
        word = "else:"
    with source.block(word or "if True:"):
        source.add("parts = []", "collect = parts.append")
        _emit_value(source, value, spec.type, nullable, version, True, "collect")
        source.add(f"tagged[{spec.tag}] = b''.join(parts)")
