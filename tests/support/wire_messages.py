"""Hypothesis strategies for protocol messages, made from their declarations.

Owns what a valid message of a version looks like; shared by codec, fuzz and listener tests. Times and durations are
those that kio can tell apart: whole seconds, thirty years.
"""

from functools import cache
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from quorum_node.schema.schema import (
    ANY_UUID,
    BOOL,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID_TYPE,
    Array,
    Fixed,
    Message,
    WireType,
)
from quorum_node.schema.source import wire_fields

FIRST_PRIVATE_TAG = 20000

_INTEGERS = {
    INT8: st.integers(-(2**7), 2**7 - 1),
    INT16: st.integers(-(2**15), 2**15 - 1),
    UINT16: st.integers(0, 2**16 - 1),
    INT32: st.integers(-(2**31), 2**31 - 1),
    INT64: st.integers(-(2**63), 2**63 - 1),
}
_UUIDS = st.none() | st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number))
_ANY_UUIDS = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def messages(
    cls: type[Message], version: int, *, private: bool = True
) -> st.SearchStrategy[Message]:
    """Messages that `version` can carry; without `private`, our own tagged fields keep their defaults."""
    # mypy takes the hash of a message for that of its class.
    return _messages(cls, version, private)  # type: ignore[arg-type]


@cache
def _messages(cls: type[Message], version: int, private: bool) -> st.SearchStrategy[Message]:
    """Once for each choice: a strategy looks at what it builds when it is first drawn from."""
    strategies: dict[str, st.SearchStrategy[Any]] = {}
    for name, spec in wire_fields(cls):
        is_private = spec.tag is not None and spec.tag >= FIRST_PRIVATE_TAG
        if not spec.in_version(version) or (is_private and not private):
            continue
        if name.endswith("error_code"):
            strategies[name] = st.integers(-1, 120)
        elif name.endswith("_ms") and spec.type is INT32:
            strategies[name] = st.integers(0, 2**31 - 1)
        elif name.endswith(("_timestamp_ms", "_start_time_ms")):
            strategies[name] = st.integers(0, 2**33).map(lambda seconds: seconds * 1000)
        elif name.endswith("_ms"):
            strategies[name] = st.integers(-(2**40), 2**40)
        else:
            strategies[name] = _values(spec.type, version, private)
            if spec.nullable_in(version):
                strategies[name] = st.none() | strategies[name]
    return st.builds(cls, **strategies)


def _values(kind: WireType, version: int, private: bool) -> st.SearchStrategy[Any]:
    if kind is BOOL:
        return st.booleans()
    if kind is UUID_TYPE:
        return _UUIDS
    if kind is ANY_UUID:
        return _ANY_UUIDS
    if kind is FLOAT64:
        return st.floats(allow_nan=False)
    if kind is STRING:
        return _TEXT
    if isinstance(kind, Fixed):
        return _INTEGERS[kind]
    if isinstance(kind, Array):
        return st.lists(_values(kind.element, version, private), max_size=3).map(tuple)
    if isinstance(kind, type):
        return messages(kind, version, private=private)
    return st.binary(max_size=200)
