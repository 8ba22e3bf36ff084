"""Declarations of messages: wire types, version ranges, tags.

Owns the types of declarations. Must not know any particular message, nor encoding and decoding
(`decoder.py`, `encoder.py`).
Source: Kafka's message definitions (KIP-482): a field has a first and a last version, may be nullable from
a version on, and may be tagged.

A message is a value (`value`); one class serves all its versions:

    @message(flexible_since=12)
    class FetchRequest(Message):
        max_wait_ms: int = wire(INT32)
        rack_id: str = wire(STRING, since=11, default="", ignorable=True)
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, TypeVar, dataclass_transform

from quorum_node.schema.primitives import TaggedFields

NEVER = 0x7FFF
"""A version that no API has."""


class MalformedMessage(Exception):
    """The bytes are not a message of that type and version: the only error of the decoders."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A type of fixed size; `code` is the letter of the struct module."""

    code: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Variable:
    """A type with a length prefix. `RECORDS` is decoded as a view, not as a copy."""

    name: str


BOOL = Fixed("?", 1)
INT8 = Fixed("b", 1)
INT16 = Fixed("h", 2)
UINT16 = Fixed("H", 2)
INT32 = Fixed("i", 4)
INT64 = Fixed("q", 8)
FLOAT64 = Fixed("d", 8)
UUID_TYPE = Fixed("16s", 16)
"""A nullable UUID: all zero is None in Python."""
ANY_UUID = Fixed("16s", 16)
"""A UUID, including all zero."""
STRING = Variable("string")
BYTES = Variable("bytes")
RECORDS = Variable("records")


@dataclass(frozen=True, slots=True)
class Array:
    """An array; a tuple in Python."""

    element: "WireType"


_V = TypeVar("_V")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def value(cls: type[_V]) -> type[_V]:
    """Class decorator: a dataclass that is immutable by convention, for values that are created in large numbers.

    The type checker reports assignments. Frozen dataclasses also check at run time, which makes their construction
    three times slower.
    """
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)


@value
class Message:
    """Base of every message and of every structure inside one."""

    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    tagged_fields: TaggedFields = ()
    """Unknown tagged fields; encoded again unchanged."""


WireType = Fixed | Variable | Array | type[Message]


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """Arguments of `wire`; `until` is inclusive, as in Kafka's own definitions ("0-14")."""

    type: WireType
    since: int
    until: int
    tag: int | None
    nullable_since: int
    ignorable: bool
    default: Any

    def in_version(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        """Whether the field is nullable in this version."""
        return version >= self.nullable_since


def wire(
    type: WireType,
    *,
    default: Any = MISSING,
    since: int = 0,
    until: int = NEVER,
    tag: int | None = None,
    nullable_since: int = NEVER,
    ignorable: bool = False,
    secret: bool = False,
) -> Any:
    """Declares one field, in the order of the wire.

    A version without the field drops it only if it is `ignorable`. Otherwise any value but the default is a bug of
    the caller (a pre-vote without its flag would be a real vote). A `secret` is not in the `repr`.
    """
    conditional = since > 0 or until != NEVER or tag is not None
    assert not conditional or default is not MISSING, "a conditional field needs a default"
    spec = FieldSpec(type, since, until, tag, nullable_since, ignorable, default)
    return field(default=default, metadata={"wire": spec}, repr=not secret)


_M = TypeVar("_M", bound=Message)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(wire,))
def message(*, flexible_since: int = NEVER) -> Callable[[type[_M]], type[_M]]:
    """Class decorator; `flexible_since` matters on the outermost structure only."""

    def declare(cls: type[_M]) -> type[_M]:
        made = value(cls)
        made.FLEXIBLE_SINCE = flexible_since
        return made

    return declare
