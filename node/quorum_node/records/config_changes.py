"""Decodes a batch of config records at once: the hot path of replay.

Owns one loop over the values of a batch that contains only config records of the known version, the
most common content of long logs. `plain_records` locates the values. For anything else (another
record, tagged fields, a wrong length) the caller uses the reference path, `decode_records` and
`decode_metadata`. Source: KIP-631, "ConfigRecord".
"""

from quorum_node.records.batches import HEADER_BYTES, Batch
from quorum_node.records.metadata import FRAME_VERSION, ConfigRecord
from quorum_node.records.plain_records import plain_values

_FRAME = bytes((FRAME_VERSION, ConfigRecord.RECORD_TYPE, 0))
_LONG = 1 << 14
"""Lengths of more than two bytes are rare and left to the reference path, except that of the record
itself.
"""

_FIRST_BYTES = 8 + len(_FRAME)
"""The first value of a plain batch starts within so many bytes."""

ConfigChange = tuple[int, str, str, str | None]
"""Resource type, resource name, config name, value; a value of None deletes."""


def config_changes(batch: Batch) -> list[ConfigChange] | None:
    """The changes in a checksummed batch, in order; None: use the reference path.

    One loop without a call: a call costs as much as the rest of a field.
    """
    raw = bytes(batch[1])
    header = batch[0]
    if header[8] > 1 and raw.find(_FRAME, HEADER_BYTES, HEADER_BYTES + _FIRST_BYTES) < 0:
        return None  # checked first, to avoid decoding other batches here
    places = plain_values(header, raw)
    if places is None:
        return None
    changes: list[ConfigChange] = []
    try:
        for at, value_end in places:
            if raw[at : at + 3] != _FRAME:
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
    except (IndexError, UnicodeDecodeError):
        return None
    return changes
