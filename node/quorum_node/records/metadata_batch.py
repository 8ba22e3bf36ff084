"""All metadata records of a batch at once: the hot path of replay.

Owns one loop over the bytes of a batch that decodes each record where it lies. Anything but the form that all writers of
metadata use (a key, a header, a timestamp of its own, a null, a length that does not fit) is not decided here: then
the reference path is taken, `record_values` and `decode_metadata`, which says what it is or what is wrong with it.
Source: Kafka's documentation, "Record Batch"; KIP-631, "Record format".
"""

import struct

from quorum_node.records.batches import COMPRESSION_MASK, HEADER_BYTES, Batch, record_values
from quorum_node.records.metadata import AnyMetadata, decode_metadata
from quorum_node.records.metadata.frame import HEAD_BYTES, known_decoder
from quorum_node.schema.decoder import MAX_ELEMENTS
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.schema.schema import MalformedMessage

_LONG = 1 << 14
"""What has more than two bytes of length is rare enough for the reference path."""


def decode_batch(batch: Batch) -> list[AnyMetadata]:
    """The records of a checksummed batch, without nulls. Raises CorruptBatch or MalformedRecord."""
    if not batch.header.attributes & COMPRESSION_MASK:
        try:
            found = _decoded(bytes(batch.data), batch.header.record_count)
        except (IndexError, UnicodeDecodeError, struct.error, MalformedMessage, MalformedRecord):
            found = None
        if found is not None:
            return found
    return [decode_metadata(value) for value in record_values(batch)]


def _decoded(raw: bytes, count: int) -> list[AnyMetadata] | None:
    """None: take the reference path."""
    size, at = len(raw), HEADER_BYTES
    records: list[AnyMetadata] = []
    for delta in range(count):
        # Length of the record; zigzag, so that an even number is half of it.
        byte = raw[at]
        if byte >= 0x80:
            at += 1
            byte = byte & 0x7F | raw[at] << 7
            if byte >= _LONG:
                return None
        end = at + 1 + (byte >> 1)
        # Attributes, no timestamp delta, the offset delta that follows, no key.
        if byte & 1 or end > size or raw[at + 2]:
            return None
        at += 3
        byte = raw[at]
        if byte >= 0x80:
            at += 1
            byte = byte & 0x7F | raw[at] << 7
        if byte != delta << 1 or raw[at + 1] != 1:
            return None
        # Length of the value, which ends before the number of headers: zero.
        at += 2
        byte = raw[at]
        if byte >= 0x80:
            at += 1
            byte = byte & 0x7F | raw[at] << 7
        at += 1
        stop = at + (byte >> 1)
        if byte & 1 or stop != end - 1 or raw[stop]:
            return None
        decode = known_decoder(raw[at : at + HEAD_BYTES])
        if decode is None:
            records.append(decode_metadata(raw[at:stop]))
        else:
            record, reached = decode(raw, at + HEAD_BYTES, stop, [MAX_ELEMENTS])
            if reached != stop:
                return None
            records.append(record)
        at = end
    return records if at == size else None
