"""The values of a batch in the form that all writers of metadata use: the hot path of reading. PURE.

Owns one straight loop over records without keys and headers, with one timestamp and no gap between offsets. Whatever is
different is not decided here: the caller takes the reference path, `decode_records`, which says what it is or what is wrong
with it. Source: Kafka's documentation, "Record Batch".
"""

from quorum_node.records.batches import CONTROL_FLAG, HEADER_BYTES, Batch

_OTHER_FORMS = CONTROL_FLAG | 0x07
"""Control batches and compressed ones."""
_LONG = 1 << 14
"""What has more than two bytes of length is rare enough for the reference path."""


def plain_values(batch: Batch) -> list[bytes] | None:
    """One for each offset from the first to the last, all at the batch's base timestamp; None: take the reference path."""
    header = batch.header
    if header.attributes & _OTHER_FORMS or header.record_count != header.last_offset_delta + 1:
        return None
    try:
        return _values(bytes(batch.data), header.record_count)
    except IndexError:
        return None


def _values(raw: bytes, count: int) -> list[bytes] | None:
    """One loop without a call: a call costs as much here as all the rest of a record."""
    at = HEADER_BYTES
    values: list[bytes] = []
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
        if byte & 1 or raw[at + 2]:
            return None
        at += 3
        byte = raw[at]
        if byte >= 0x80:
            at += 1
            byte = byte & 0x7F | raw[at] << 7
        if byte >= _LONG or byte != delta << 1 or raw[at + 1] != 1:
            return None
        # Length of the value, which ends before the number of headers: zero.
        at += 2
        byte = raw[at]
        if byte >= 0x80:
            at += 1
            byte = byte & 0x7F | raw[at] << 7
        at += 1
        stop = at + (byte >> 1)
        if byte & 1 or byte >= _LONG or stop + 1 != end or raw[stop]:
            return None
        values.append(raw[at:stop])
        at = end
    return values if at == len(raw) else None
