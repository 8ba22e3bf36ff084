"""The value bytes of a metadata record: frame version 1, type, version, body.

Owns the frame. Must not know how a record changes state.
Source: KIP-631, "Record format".
"""

import struct
from collections.abc import Callable
from typing import Any

from quorum_node.records.metadata.record import (
    RECORDS_BY_TYPE,
    AnyMetadata,
    UnknownMetadata,
    record_type_name,
)
from quorum_node.schema.decoder import MAX_ELEMENTS, Decoder, decoder
from quorum_node.schema.encoder import Part, encoder
from quorum_node.schema.primitives import MalformedRecord, encode_uvarint, read_uvarint
from quorum_node.schema.schema import MalformedMessage

FRAME_VERSION = 1
MetadataEncoder = Callable[[Any], bytes]

_DECODERS: dict[tuple[int, int], Decoder] = {}
HEAD_BYTES = 3
_BY_HEAD: dict[bytes, Decoder] = {}
"""Decoders by the bytes of frame version, type and version, where all three are one byte: the fast
path of replay.
"""
known_decoder = _BY_HEAD.get
"""The decoder for such a head, after its first use in `decode_metadata`."""
_ENCODERS: dict[tuple[type, int], MetadataEncoder] = {}


def encode_metadata(record: AnyMetadata, version: int = 0) -> bytes:
    """The value of a record in the log. `record_version` returns the version that the cluster requires."""
    if isinstance(record, UnknownMetadata):
        head = encode_uvarint(record.type) + encode_uvarint(record.version)
        return bytes((FRAME_VERSION,)) + head + record.payload
    known = _ENCODERS.get((type(record), version))
    if known is None:
        known = metadata_encoder(type(record), version)
    return known(record)


def metadata_encoder(cls: Any, version: int) -> MetadataEncoder:
    """`encode_metadata` for one class of records and one version, for many records."""
    known = _ENCODERS.get((cls, version))
    if known is not None:
        return known
    if not 0 <= version <= cls.HIGHEST_VERSION:
        raise ValueError(f"{cls.__name__} has no version {version}")
    head = bytes((FRAME_VERSION,)) + encode_uvarint(cls.RECORD_TYPE) + encode_uvarint(version)
    write = encoder(cls, version, True)

    def encode(record: Any) -> bytes:
        parts: list[Part] = [head]
        write(record, parts)
        return b"".join(parts)

    _ENCODERS[cls, version] = encode
    return encode


def compile_metadata_encoder(cls: Any, version: int) -> None:
    """Compile the encoder now instead of at its first use."""
    metadata_encoder(cls, version)


def compile_metadata_decoder(cls: Any, version: int) -> None:
    """Compile the decoder now instead of at its first use."""
    decoder(cls, version, True, limits_strings=False)


def decode_metadata(data: bytes) -> AnyMetadata:
    """A record from its value bytes.

    Raises MalformedRecord on another frame version, or a body in the wrong format.
    """
    decode = _BY_HEAD.get(data[:HEAD_BYTES])
    if decode is not None:
        return _decoded(decode, data, HEAD_BYTES)
    if not data or data[0] != FRAME_VERSION:
        raise MalformedRecord("not a metadata record frame")
    kind, position = read_uvarint(data, 1)
    version, position = read_uvarint(data, position)
    decode = _DECODERS.get((kind, version))
    if decode is None:
        cls = RECORDS_BY_TYPE.get(kind)
        if cls is None or version > cls.HIGHEST_VERSION:
            return UnknownMetadata(kind, version, data[position:])
        decode = _DECODERS[kind, version] = decoder(cls, version, True, limits_strings=False)
        if position == HEAD_BYTES:
            _BY_HEAD[data[:HEAD_BYTES]] = decode
    return _decoded(decode, data, position)


def _decoded(decode: Decoder, data: bytes, position: int) -> AnyMetadata:
    try:
        record, end = decode(data, position, len(data), [MAX_ELEMENTS])
    except (struct.error, IndexError):
        raise MalformedRecord(f"{_named(data)} runs past the end") from None
    except UnicodeDecodeError:
        raise MalformedRecord(f"{_named(data)}: a string is not UTF-8") from None
    except MalformedMessage as error:
        raise MalformedRecord(f"{_named(data)}: {error}") from None
    if end != len(data):
        raise MalformedRecord(f"{len(data) - end} bytes after {_named(data)}")
    made: AnyMetadata = record
    return made


def _named(data: bytes) -> str:
    kind, position = read_uvarint(data, 1)
    return f"{record_type_name(kind)} v{read_uvarint(data, position)[0]}"
