"""Well-formed messages with random fields: what a client may send that no stock client sends.

Values are often ones that the server knows (names, ids, small numbers), so that requests pass the first checks, and
otherwise the edges of their type.
"""

import dataclasses
import random
import struct
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from crc32c import crc32c

from quorum_node.records.batches import Record, encode_batch
from quorum_node.schema.schema import (
    ANY_UUID,
    UUID_TYPE,
    Array,
    FieldSpec,
    Fixed,
    Message,
    Variable,
    WireType,
)

_BITS = {"b": 8, "h": 16, "H": 16, "i": 32, "q": 64}
_EDGES = (0, 1, -1, 2, 3, 5, -2, -5, 100, 1000, 65_536, 1 << 31, 1_700_000_000_000)
_NAMES = (
    "",
    "a" * 300,
    "i" * 32_767,
    "bad name/..",
    ".",
    "*",
    "é一",
    "__consumer_offsets",
    "1",
    "User:x",
)
_MANY = 20


class RandomMessages:
    """`known`: name of a field → values that mean something to the server. May be changed at any time."""

    def __init__(self, rng: random.Random, known: Mapping[str, Sequence[Any]]) -> None:
        self._rng = rng
        self._known = known

    def message(self, cls: type[Message], version: int, depth: int = 0) -> Message:
        """A message that this version can express."""
        fields: dict[str, Any] = {}
        for each in dataclasses.fields(cls):
            spec: FieldSpec | None = each.metadata.get("wire")
            if spec is None or not spec.in_version(version):
                continue
            if spec.tag is not None and self._rng.random() < 0.5:
                continue
            if spec.nullable_in(version) and self._rng.random() < 0.2:
                fields[each.name] = None
            else:
                fields[each.name] = self._value(spec.type, each.name, version, depth)
        return cls(**fields)

    def _value(self, kind: WireType, name: str, version: int, depth: int) -> Any:
        rng, known = self._rng, self._known.get(name)
        if isinstance(kind, Array):
            many = _MANY if depth < 2 and rng.random() < 0.1 else 3
            count = rng.choice((0, 1, 1, 1, 2, many))
            return tuple(self._value(kind.element, name, version, depth + 1) for _ in range(count))
        if isinstance(kind, type):
            return self.message(kind, version, depth + 1)
        if known and rng.random() < 0.75:
            return rng.choice(known)
        if kind in (UUID_TYPE, ANY_UUID):
            return UUID(int=rng.choice((1, rng.getrandbits(128))))
        if isinstance(kind, Fixed):
            return self._number(kind.code)
        return self._variable(kind)

    def _number(self, code: str) -> float | bool:
        rng = self._rng
        if code == "?":
            return rng.random() < 0.5
        if code == "d":
            return rng.choice((0.0, 1.0, -1.0, float("inf"), float("nan"), 1e300))
        size = 1 << _BITS[code]
        lowest = 0 if code == "H" else -(size >> 1)
        edges = (*_EDGES, lowest, lowest + size - 1, rng.getrandbits(_BITS[code]))
        return (rng.choice(edges) - lowest) % size + lowest

    def _variable(self, kind: Variable) -> str | bytes:
        rng = self._rng
        if kind.name == "string":
            return rng.choice(_NAMES)
        if kind.name == "records":
            return self._records()
        return rng.choice((b"", b"\0", b"\0" * 6, rng.randbytes(40), b"x" * 5000))

    def _records(self) -> bytes:
        """A batch, often with header fields that no producer sends, and sometimes damaged."""
        rng = self._rng
        records = [
            Record(rng.choice((None, b"k", b"")), rng.choice((None, b"v", b"x" * 100)))
            for _ in range(rng.randrange(1, 5))
        ]
        at = rng.choice((1_700_000_000_000, 0, -1, 1 << 62))
        data = bytearray(
            encode_batch(
                base_offset=rng.choice((0, 0, 5)),
                leader_epoch=-1,
                timestamp_ms=at,
                records=records,
            )
        )
        for position, code, values in _HEADER:
            if rng.random() < 0.2:
                struct.pack_into(code, data, position, rng.choice(values))
        if rng.random() < 0.9:
            struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
        return bytes(rng.choice((data, data, data, data + data, data[: rng.randrange(len(data))])))


_HEADER: tuple[tuple[int, str, tuple[int, ...]], ...] = (
    (8, ">i", (0, -1, 48, (1 << 31) - 1)),
    (16, ">b", (0, 1, 3)),
    (21, ">h", (1, 2, 3, 4, 5, 8, 16, 32, 48, 64, 0x7FFF)),
    (23, ">i", (-1, 5, (1 << 31) - 1)),
    (43, ">q", (0, 1, 1000, 1001)),
    (51, ">h", (0, 1, 5)),
    (53, ">i", (0, 1, 2, (1 << 31) - 1)),
    (57, ">i", (0, -1, 5, (1 << 31) - 1)),
)
"""Fields of a batch's header: position, format, and values: length, magic, attributes, last offset delta, producer id,
producer epoch, base sequence, number of records."""
