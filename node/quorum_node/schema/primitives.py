"""Primitive types of Kafka's serialization, as used inside records and messages.

Owns: variable length integers, compact strings, UUIDs and tagged fields of the flexible format.
Must not know the meaning of records and messages.
Source: KIP-482 (flexible versions, tagged fields) and Kafka's protocol guide, "Protocol Primitive Types".

Every reader takes `(buffer, position)` and returns `(value, next position)`. A length is compared with the
remaining bytes before anything is allocated, and the only error is `MalformedRecord`.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any
from uuid import UUID, SafeUUID

Buffer = bytes | memoryview
TaggedFields = tuple[tuple[int, bytes], ...]
"""Tagged fields that are unknown to this version, (tag, raw bytes), ascending; encoded again unchanged."""

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

_UVARINT_MAX_BYTES = 5
_VARLONG_MAX_BYTES = 10
_NIL_UUID_BYTES = bytes(16)


class MalformedRecord(Exception):
    """The bytes are not a value of the expected format."""


def encode_uvarint(value: int) -> bytes:
    """Unsigned varint, 7 bits a byte, lowest first."""
    if value < 0x80:
        return _UVARINTS[value]
    return encode_long_uvarint(value)


@lru_cache(maxsize=1 << 14)
def encode_long_uvarint(value: int) -> bytes:
    """The general case of `encode_uvarint`, cached, as few lengths and offsets repeat."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_UVARINTS = [bytes((value,)) for value in range(0x80)]


def encode_varint(value: int) -> bytes:
    """Signed varint (zigzag); int32 and int64 have the same form."""
    return encode_uvarint((value << 1) ^ (value >> 63))


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return byte, position + 1
        value = byte & 0x7F
        shift = 7
        for index in range(position + 1, position + _UVARINT_MAX_BYTES):
            byte = buffer[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFF:
                    break
                return value, index + 1
            shift += 7
    except IndexError:
        raise MalformedRecord("a varint runs past the end") from None
    raise MalformedRecord("a varint has more than 32 bits")


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed (zigzag) varint of at most 64 bits."""
    try:
        byte = buffer[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        value = byte & 0x7F
        shift = 7
        for index in range(position + 1, position + _VARLONG_MAX_BYTES):
            byte = buffer[index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFFFFFFFFFFFFFF:
                    break
                return (value >> 1) ^ -(value & 1), index + 1
            shift += 7
    except IndexError:
        raise MalformedRecord("a varint runs past the end") from None
    raise MalformedRecord("a varint has more than 64 bits")


def take(buffer: Buffer, position: int, size: int) -> tuple[bytes, int]:
    """Exactly `size` bytes."""
    end = position + size
    if size < 0 or end > len(buffer):
        raise MalformedRecord(f"{size} bytes wanted at {position}, {len(buffer) - position} left")
    return bytes(buffer[position:end]), end


def read_struct(layout: Struct, buffer: Buffer, position: int) -> tuple[int, int]:
    """One fixed-size integer."""
    end = position + layout.size
    if end > len(buffer):
        raise MalformedRecord(f"{layout.size} bytes wanted at {position}")
    (value,) = layout.unpack_from(buffer, position)
    return int(value), end


def encode_compact_string(text: str | None) -> bytes:
    """Length + 1 as uvarint, then UTF-8; null is length 0."""
    if text is None:
        return b"\0"
    data = text.encode()
    return encode_uvarint(len(data) + 1) + data


def read_nullable_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A compact string or null."""
    size, position = read_uvarint(buffer, position)
    if size == 0:
        return None, position
    data, position = take(buffer, position, size - 1)
    try:
        return data.decode(), position
    except UnicodeDecodeError:
        raise MalformedRecord("a string is not UTF-8") from None


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """A compact string that must not be null."""
    text, position = read_nullable_compact_string(buffer, position)
    if text is None:
        raise MalformedRecord("null for a required string")
    return text, position


_slots: Any = UUID
_set_int, _set_is_safe = _slots.int.__set__, _slots.is_safe.__set__


@lru_cache(maxsize=1024)
def any_uuid_from_bytes(data: bytes) -> UUID:
    """16 bytes to a UUID, including all zero. Cached, as few values repeat."""
    if len(data) != 16:
        raise MalformedRecord(f"a UUID of {len(data)} bytes")
    # The constructor repeats checks and takes three times as long.
    made = object.__new__(UUID)
    _set_int(made, int.from_bytes(data, "big"))
    _set_is_safe(made, SafeUUID.unknown)
    return made


@lru_cache(maxsize=16_384)
def uuids_from_bytes(data: bytes) -> tuple[UUID, ...]:
    """Consecutive UUIDs; cached, as few arrays repeat."""
    return tuple([any_uuid_from_bytes(data[at : at + 16]) for at in range(0, len(data), 16)])


def uuids_to_bytes(uuids: Iterable[UUID]) -> bytes:
    """The reverse of `uuids_from_bytes`."""
    return b"".join([uuid.int.to_bytes(16, "big") for uuid in uuids])


def uuid_from_bytes(data: bytes) -> UUID | None:
    """16 bytes to a UUID; all zero means unknown."""
    return None if data == _NIL_UUID_BYTES else any_uuid_from_bytes(data)


def uuid_to_bytes(uuid: UUID | None) -> bytes:
    """The reverse of `uuid_from_bytes`."""
    return _NIL_UUID_BYTES if uuid is None else uuid.bytes


def read_uuid(buffer: Buffer, position: int) -> tuple[UUID | None, int]:
    """A UUID, None when all zero."""
    data, position = take(buffer, position, 16)
    return uuid_from_bytes(data), position


def read_array_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Length of a compact array, at most the number of remaining bytes."""
    size, position = read_uvarint(buffer, position)
    if size == 0:
        raise MalformedRecord("null for a required array")
    if size - 1 > len(buffer) - position:
        raise MalformedRecord(f"an array of {size - 1} elements in {len(buffer) - position} bytes")
    return size - 1, position


def encode_tagged_fields(
    fields: Mapping[int, bytes] | None = None, kept: TaggedFields = ()
) -> bytes:
    """Known fields by tag and kept unknown ones, in ascending order as the format requires."""
    if not fields and not kept:
        return b"\0"
    merged = {**dict(kept), **(fields or {})}
    parts = [encode_uvarint(len(merged))]
    for tag, data in sorted(merged.items()):
        parts += (encode_uvarint(tag), encode_uvarint(len(data)), data)
    return b"".join(parts)


MAX_TAGGED_FIELDS = 1000
"""Limit in one structure: two bytes become an entry of a hundred, so more is an attack or damage."""


def read_tagged_fields(buffer: Buffer, position: int) -> tuple[dict[int, bytes], int]:
    """All tagged fields as raw bytes by tag."""
    if position < len(buffer) and buffer[position] == 0:
        return {}, position + 1
    count, position = read_uvarint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise MalformedRecord(f"{count} tagged fields, the limit is {MAX_TAGGED_FIELDS}")
    fields: dict[int, bytes] = {}
    previous = -1
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        if tag <= previous:
            raise MalformedRecord(f"tagged field {tag} after {previous}")
        size, position = read_uvarint(buffer, position)
        fields[tag], position = take(buffer, position, size)
        previous = tag
    return fields, position
