"""Removes records from a stored batch for compaction.

Owns the bytes: which header fields are kept, and how the delete horizon of tombstones is written. A
batch without records may be kept for its producer's sequence numbers. Must not know which records
are removed. A batch that keeps all records is not changed.
Source: Kafka's documentation, "Record Batch"; KIP-534 (delete horizon in the base timestamp).
"""

from collections.abc import Callable, Sequence

from quorum_node.broker.wrapped import wrapped
from quorum_node.records.batches import COMPRESSION_MASK, framed
from quorum_node.schema.primitives import encode_varint, read_varint
from quorum_node.storage.broker.batch_walk import FileBatch
from quorum_node.storage.broker.codecs import deflate
from quorum_node.storage.broker.stored_records import StoredRecord, stored_records

HORIZON_FLAG = 0x40


def horizon_of(batch: FileBatch) -> int | None:
    """Time from which its tombstones, or its marker, can be removed."""
    return batch.base_timestamp_ms if batch.attributes & HORIZON_FLAG else None


def compacted(
    data: bytes,
    batch: FileBatch,
    is_retained: Callable[[StoredRecord], bool],
    *,
    new_horizon_ms: int,
    keep_empty: bool,
    is_obsolete_marker: bool,
) -> bytes | None:
    """The batch with the remaining records, or None if it is removed.

    `new_horizon_ms`: for tombstones that are seen for the first time. `is_obsolete_marker`: it is a
    marker whose transaction has no records left. `keep_empty`: keep the batch even without records.
    Raises UnknownCodec, CorruptBatch.
    """
    records = list(stored_records(data)) if batch.record_count else []
    kept = [each for each in records if is_retained(each)]
    if not kept:
        return empty_batch(batch) if keep_empty else None
    has_tombstone = not batch.is_control and any(not each.has_value for each in kept)
    sets_horizon = (has_tombstone or is_obsolete_marker) and horizon_of(batch) is None
    if len(kept) == len(records) and not sets_horizon:
        return data
    return _rebuilt(batch, kept, new_horizon_ms if sets_horizon else None)


def empty_batch(batch: FileBatch) -> bytes:
    """A batch with offsets and sequence numbers, but without records."""
    attributes = batch.attributes & ~(COMPRESSION_MASK | HORIZON_FLAG)
    return _framed(batch, attributes, -1, batch.max_timestamp_ms, 0, b"")


def _rebuilt(batch: FileBatch, kept: Sequence[StoredRecord], horizon_ms: int | None) -> bytes:
    attributes, base_ms = batch.attributes, batch.base_timestamp_ms
    bodies = [each.body for each in kept]
    if horizon_ms is not None:
        attributes, base_ms = attributes | HORIZON_FLAG, horizon_ms
        bodies = [_moved(each, horizon_ms) for each in kept]
    content = b"".join(bodies)
    if attributes & COMPRESSION_MASK:
        content = deflate(attributes & COMPRESSION_MASK, content)
    newest = max(each.timestamp_ms for each in kept)
    return _framed(batch, attributes, base_ms, newest, len(kept), content)


def _moved(record: StoredRecord, base_ms: int) -> bytes:
    """The record, with its timestamp relative to another base."""
    _, body = read_varint(record.body, 0)
    _, behind = read_varint(record.body, body + 1)
    delta = encode_varint(wrapped(record.timestamp_ms - base_ms))
    moved = record.body[body : body + 1] + delta + record.body[behind:]
    return encode_varint(len(moved)) + moved


def _framed(
    batch: FileBatch, attributes: int, base_ms: int, newest_ms: int, count: int, content: bytes
) -> bytes:
    fields = (
        attributes, batch.last_offset_delta, base_ms, newest_ms,
        batch.producer_id, batch.producer_epoch, batch.base_sequence, count,
    )  # fmt: skip
    return framed(batch.base_offset, batch.leader_epoch, fields, content)
