"""Decodes the batches in a leader's answer for the core.

Owns the follower's checks of headers and checksums; the core checks that offsets ascend. An incomplete batch at the end is dropped. Does
not append batches.
"""

from crc32c import crc32c

from quorum_node.broker.batch import NO_PRODUCER, Batch, Marker
from quorum_node.records.batches import (
    CONTROL_FLAG,
    CRC_COVERS_FROM,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL_FLAG,
    CorruptBatch,
)
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.broker.producer_walk import marker_of

_NO_RECORD = Marker(is_abort=False, coordinator_epoch=-1)
MAX_FETCHED_BATCHES = 100_000
"""Maximum number of batches in one answer for one partition: limits the number of objects created from its bytes."""


def fetched_batches(records: Buffer) -> tuple[Batch, ...]:
    """The whole batches, in order. Raises CorruptBatch. After compaction a batch may have fewer records than offsets."""
    view = memoryview(records)
    total, position = len(view), 0
    found: list[Batch] = []
    while total - position >= HEADER_BYTES and len(found) < MAX_FETCHED_BATCHES:
        (
            base_offset, length, epoch, magic, crc, attributes, last_delta, _, max_timestamp_ms, producer_id,
            producer_epoch, base_sequence, count,
        ) = HEADER.unpack_from(view, position)  # fmt: skip
        size_bytes = length + PREFIX_BYTES
        if magic != MAGIC or size_bytes < HEADER_BYTES:
            raise CorruptBatch(position, f"magic {magic}, length {length}")
        end = position + size_bytes
        if end > total:
            break
        if crc32c(view[position + CRC_COVERS_FROM : end]) != crc:
            raise CorruptBatch(position, "checksum differs")
        if base_offset < 0 or last_delta < 0 or not 0 <= count <= last_delta + 1:
            reason = f"offset {base_offset}, last delta {last_delta}, {count} records"
            raise CorruptBatch(position, reason)
        found.append(
            Batch(
                base_offset=base_offset,
                end_offset=base_offset + last_delta + 1,
                leader_epoch=epoch,
                size_bytes=size_bytes,
                data=view[position:end],
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                max_timestamp_ms=max_timestamp_ms,
                is_transactional=attributes & TRANSACTIONAL_FLAG != 0,
                marker=_marker(attributes, producer_id, count, view[position:end]),
            )
        )
        position = end
    return tuple(found)


def _marker(attributes: int, producer_id: int, count: int, data: memoryview) -> Marker | None:
    """The marker in a control batch; None if compaction has removed its record."""
    if not attributes & CONTROL_FLAG or producer_id == NO_PRODUCER:
        return None
    found = marker_of(data) if count else None
    return _NO_RECORD if found is None else found
