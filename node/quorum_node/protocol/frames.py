"""Requests and responses on a connection: size, header, body.

Owns framing and headers. Must not know how messages are processed.
Source: Kafka's protocol guide, "Request Header" and "Response Header"; KIP-511: an ApiVersions
response always has header version 0, and an unknown version of the request is answered in version
0.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct

from quorum_node.made_often import made_often
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import API_VERSIONS, APIS
from quorum_node.schema.codec import decode, encode_into
from quorum_node.schema.decoder import MAX_ELEMENTS
from quorum_node.schema.encoder import Part
from quorum_node.schema.primitives import (
    Buffer,
    MalformedRecord,
    encode_tagged_fields,
    read_tagged_fields,
)
from quorum_node.schema.schema import MalformedMessage, Message

SIZE_BYTES = 4
_SIZE = Struct(">i")
_PIECE_BYTES = 1 << 20
_FEW_PARTS = 16
_LARGE_PART_BYTES = 4 << 10
"""In bytes: copying less costs less than one more write."""
_REQUEST_HEADER = Struct(">hhih")
_RESPONSE_HEADER = Struct(">i")

MAX_FEW_ELEMENTS = 2000
"""Limit of array elements in a request about the quorum: see `FEW_ELEMENTS`."""


class UnsupportedRequest(MalformedMessage):
    """An API or version that this node does not serve. Kafka closes the connection."""


@made_often
@dataclass(frozen=True, slots=True)
class Request:
    """A request with its header. `body` is None for an ApiVersions request of an unknown version."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body: Message | None


def read_size(buffer: Buffer, max_bytes: int, position: int = 0) -> int:
    """The size of the frame that follows. Raises MalformedMessage when negative or above the limit."""
    (size,) = _SIZE.unpack_from(buffer, position)
    if not 0 <= size <= max_bytes:
        raise MalformedMessage(f"a frame of {size} bytes, the limit is {max_bytes}")
    return int(size)


def read_frame(receive: Callable[[int], bytes], max_bytes: int) -> bytes:
    """The next frame of a stream, without its size. `receive`: returns at most the given number of next bytes, none at the end.

    Raises MalformedMessage, ConnectionResetError if the stream ends within the frame, and what `receive` raises.
    """
    return _exactly(receive, read_size(_exactly(receive, SIZE_BYTES), max_bytes))


def _exactly(receive: Callable[[int], bytes], size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = receive(min(size - len(data), _PIECE_BYTES))
        if not more:
            raise ConnectionResetError("the connection was closed within a frame")
        data += more
    return bytes(data)


def decode_request(frame: Buffer, apis: Mapping[int, Api] = APIS) -> Request:
    """A request from its frame (without the size). `apis`: those of the listener. Raises MalformedMessage only."""
    try:
        key, version, correlation_id, size = _REQUEST_HEADER.unpack_from(frame, 0)
        position = _REQUEST_HEADER.size
        client_id = None
        if size >= 0:
            end = position + size
            if end > len(frame):
                raise MalformedMessage("client id runs past the end")
            client_id, position = str(frame[position:end], "utf-8"), end
        api = apis.get(key)
        if api is None:
            raise UnsupportedRequest(f"api key {key}")
        if not api.min_version <= version <= api.max_version:
            if api is API_VERSIONS and version > api.max_version:
                return Request(api, version, correlation_id, client_id, None)
            raise UnsupportedRequest(f"{api.name} version {version}")
        if version >= api.flexible_since:
            _, position = read_tagged_fields(frame, position)
    except struct.error:
        raise MalformedMessage("a request header runs past the end") from None
    except (UnicodeDecodeError, MalformedRecord) as error:
        raise MalformedMessage(f"request header: {error}") from None
    limit = MAX_FEW_ELEMENTS if api.is_about_quorum else MAX_ELEMENTS
    body = decode(api.request, version, frame, position, limit, whole=not api.ignores_rest)
    return Request(api, version, correlation_id, client_id, body)


def encode_request(
    api: Api,
    version: int,
    correlation_id: int,
    client_id: str,
    body: Message,
) -> bytes:
    """A whole frame, size included."""
    client = client_id.encode()
    header = _REQUEST_HEADER.pack(api.key, version, correlation_id, len(client)) + client
    parts: list[Part] = [b"", header]
    if version >= api.flexible_since:
        parts.append(encode_tagged_fields())
    encode_into(parts, body, version)
    return _framed(parts)


def encode_response(api: Api, version: int, correlation_id: int, body: Message) -> bytes:
    """A whole frame, size included; record data inside is copied once."""
    return _framed(_response_parts(api, version, correlation_id, body))


def encode_response_body(api: Api, version: int, correlation_id: int, body: Message) -> bytes:
    """Header and body without the size, as an Envelope carries them."""
    return b"".join(_response_parts(api, version, correlation_id, body))


def encode_response_parts(api: Api, version: int, correlation_id: int, body: Message) -> list[Part]:
    """The same for a gathering write: large record data is not copied at all."""
    parts = _response_parts(api, version, correlation_id, body)
    parts[0] = _SIZE.pack(sum(map(len, parts)))
    return parts if len(parts) <= _FEW_PARTS else _without_small_parts(parts)


def _without_small_parts(parts: list[Part]) -> list[Part]:
    """Runs of small parts are joined: each part is encrypted and written by itself, and there is one for each field."""
    made: list[Part] = []
    begin = 0
    for index, part in enumerate(parts):
        if len(part) >= _LARGE_PART_BYTES:
            made += (b"".join(parts[begin:index]), part)
            begin = index + 1
    made.append(b"".join(parts[begin:]))
    return [part for part in made if part]


def _response_parts(api: Api, version: int, correlation_id: int, body: Message) -> list[Part]:
    header = _RESPONSE_HEADER.pack(correlation_id)
    if api is not API_VERSIONS and version >= api.flexible_since:
        header += encode_tagged_fields()
    parts: list[Part] = [b"", header]
    encode_into(parts, body, version)
    return parts


def _framed(parts: list[Part]) -> bytes:
    parts[0] = _SIZE.pack(sum(map(len, parts)))
    return b"".join(parts)


def response_correlation_id(frame: Buffer) -> int:
    """The correlation id, which identifies the request and so the version of the response."""
    if len(frame) < _RESPONSE_HEADER.size:
        raise MalformedMessage("a response of less than four bytes")
    (correlation_id,) = _RESPONSE_HEADER.unpack_from(frame, 0)
    return int(correlation_id)


def decode_response(api: Api, version: int, frame: Buffer) -> Message:
    """The body of a response to a request of this API and version. Raises MalformedMessage only."""
    response_correlation_id(frame)
    position = _RESPONSE_HEADER.size
    if api is not API_VERSIONS and version >= api.flexible_since:
        try:
            _, position = read_tagged_fields(frame, position)
        except MalformedRecord as error:
            raise MalformedMessage(f"response header: {error}") from None
    return decode(api.response, version, frame, position)
