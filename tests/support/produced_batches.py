"""Batches as producers send them, with any content, header and compression."""

from crc32c import crc32c

from quorum_node.records.batches import HEADER
from quorum_node.schema.primitives import encode_varint
from quorum_node.storage.broker.codecs import deflate

Content = tuple[int, bytes | None, bytes]
"""Timestamp delta in ms, key, value."""


def content_of(*records: Content) -> bytes:
    """The bytes of records."""
    parts = []
    for index, (delta, key, value) in enumerate(records):
        named = encode_varint(-1) if key is None else encode_varint(len(key)) + key
        body = b"\0" + encode_varint(delta) + encode_varint(index) + named
        body += encode_varint(len(value)) + value + b"\0"
        parts.append(encode_varint(len(body)) + body)
    return b"".join(parts)


def produced(
    *records: Content,
    base_ms: int,
    max_ms: int | None = None,
    attributes: int = 0,
    content: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """A batch with a valid checksum. `attributes` may name a codec; `content` and `count` replace what the records give."""
    plain = content_of(*records) if content is None else content
    body = deflate(attributes & 7, plain) if attributes & 7 else plain
    number = len(records) if count is None else count
    latest = base_ms + max((each[0] for each in records), default=0) if max_ms is None else max_ms
    head = bytearray(
        HEADER.pack(
            0, 49 + len(body), -1, 2, 0, attributes, number - 1, base_ms, latest, -1, -1, -1, number
        )
    )
    head[17:21] = crc32c(bytes(head[21:]) + body).to_bytes(4, "big")
    return bytes(head) + body
