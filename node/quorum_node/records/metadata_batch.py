"""Decodes all metadata records of a batch at once: the hot path of replay.

Owns a loop that decodes each record in place. `plain_records` locates the values. Batches in
another form, or with records that can't be decoded, take the reference path, `record_values` and
`decode_metadata`, which raises the errors.
Source: KIP-631, "Record format".
"""

import struct

from quorum_node.records.batches import Batch
from quorum_node.records.metadata import AnyMetadata, decode_metadata
from quorum_node.records.metadata.frame import HEAD_BYTES, known_decoder
from quorum_node.records.plain_records import plain_values, record_values
from quorum_node.schema.decoder import MAX_ELEMENTS
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.schema.schema import MalformedMessage


def decode_batch(batch: Batch) -> list[AnyMetadata]:
    """The records of a checksummed batch, without nulls. Raises CorruptBatch or MalformedRecord."""
    raw = bytes(batch[1])
    places = plain_values(batch[0], raw)
    if places is not None:
        records: list[AnyMetadata] = []
        try:
            for at, stop in places:
                decode = known_decoder(raw[at : at + HEAD_BYTES])
                if decode is None:
                    records.append(decode_metadata(raw[at:stop]))
                else:
                    record, reached = decode(raw, at + HEAD_BYTES, stop, [MAX_ELEMENTS])
                    if reached != stop:
                        break
                    records.append(record)
            else:
                return records
        except (IndexError, UnicodeDecodeError, struct.error, MalformedMessage, MalformedRecord):
            pass  # the reference path raises the error
    return [decode_metadata(value) for value in record_values(batch)]
