"""Locates the values of a batch's records, if all records have the plain form: the fast path of decoding.

Owns one loop over the bytes of a batch. Plain is the form that all writers of metadata use: no
compression, no key, no headers, the timestamp of the batch, offsets without a gap, lengths and
numbers of records below 8,192. Any other batch, damaged ones included, is left to the reference,
`decode_records`.
Must not know the meaning of values. Source: Kafka's documentation, "Record Batch".
"""

from quorum_node.records.batches import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    Batch,
    BatchHeader,
    decode_records,
)

_LONG = 1 << 14
"""Lengths of more than two bytes are rare and left to the reference."""

_HEADS = [bytes((0, 0, delta << 1, 1)) for delta in range(0x40)]
"""Attributes, no timestamp delta, the offset delta, no key, for the first records of a batch."""
_AROUND = 12
"""Difference between the zigzag length of a short record and that of its value: six bytes around
the value.
"""

Place = tuple[int, int]
"""Start and end of a value."""


def plain_values(header: BatchHeader, raw: bytes) -> list[Place] | None:
    """Positions of the values in a checksummed batch, `raw`; None: use `decode_records`.

    One loop without a call: a call costs as much as the rest of a record.
    """
    if header[4] & COMPRESSION_MASK:
        return None
    size, at = len(raw), HEADER_BYTES
    places: list[Place] = []
    try:
        for delta in range(header[8]):
            # Length of the record; zigzag, so that an even number is half of it.
            byte = raw[at]
            if byte < 0x80:
                # A short record, the common case: four known bytes, and the length of the value
                # follows from that of the record.
                if delta < 0x40 and raw[at + 1 : at + 5] == _HEADS[delta]:
                    stop = at + (byte >> 1)
                    if raw[at + 5] == byte - _AROUND and not raw[stop] | byte & 1:
                        places.append((at + 6, stop))
                        at = stop + 1
                        continue
            else:
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
            places.append((at, stop))
            at = end
    except IndexError:
        return None
    return places if at == size else None


def record_values(batch: Batch) -> list[bytes]:
    """The values alone, without nulls. Raises CorruptBatch as `decode_records` does."""
    raw = bytes(batch[1])
    places = plain_values(batch[0], raw)
    if places is None:
        return [each.value for each in decode_records(batch) if each.value is not None]
    return [raw[begin:end] for begin, end in places]
