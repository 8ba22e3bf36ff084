"""A whole batch of config records at once: the hot path of replay.

Owns one straight loop over the bytes of a batch that holds nothing but config records of the known version, which is
what long logs consist of. Anything else (another record, a key, headers, tagged fields, a length that does not
fit) is not decided here: the caller takes the reference path, `decode_records` and `decode_metadata`, which
says what it is or what is wrong with it. Source: Kafka's documentation, "Record Batch"; KIP-631, "ConfigRecord".
"""

from quorum_node.records.batches import COMPRESSION_MASK, HEADER_BYTES, Batch
from quorum_node.records.metadata import FRAME_VERSION, ConfigRecord

_FRAME = bytes((FRAME_VERSION, ConfigRecord.RECORD_TYPE, 0))
_LONG = 1 << 14
"""What has more than two bytes of length is rare enough for the reference path, except for the record itself."""

ConfigChange = tuple[int, str, str, str | None]
"""Resource type, resource name, config name, value; a value of None deletes."""


def config_changes(batch: Batch) -> list[ConfigChange] | None:
    """What the records of a checksummed batch change, in order; None: take the reference path."""
    header = batch.header
    if header.attributes & COMPRESSION_MASK or header.record_count != header.last_offset_delta + 1:
        return None
    raw = bytes(batch.data)
    try:
        return _changes(raw, header.record_count)
    except (IndexError, UnicodeDecodeError):
        return None


def _changes(raw: bytes, count: int) -> list[ConfigChange] | None:
    """One loop without a call: a call costs as much here as all the rest of a field."""
    size, at = len(raw), HEADER_BYTES
    changes: list[ConfigChange] = []
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
        value_end = at + (byte >> 1)
        if byte & 1 or value_end != end - 1 or raw[value_end] or raw[at : at + 3] != _FRAME:
            return None
        kind = raw[at + 3]
        # Two compact strings that are not null, one that may be.
        at += 4
        byte = raw[at]
        if byte >= 0x80 or not byte:
            return None
        stop = at + byte
        resource_name = raw[at + 1 : stop].decode()
        byte = raw[stop]
        if byte >= 0x80 or not byte:
            return None
        at = stop + byte
        name = raw[stop + 1 : at].decode()
        byte = raw[at]
        at += 1
        if byte >= 0x80:
            byte = byte & 0x7F | raw[at] << 7
            if byte >= _LONG:
                return None
            at += 1
        if byte:
            stop = at + byte - 1
            value = raw[at:stop].decode()
        else:
            stop, value = at, None
        if raw[stop] or stop + 1 != value_end:
            return None
        changes.append((kind if kind < 0x80 else kind - 0x100, resource_name, name, value))
        at = end
    return changes if at == size else None
