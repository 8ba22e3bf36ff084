"""Applies the batches of a segment to the state of producers."""

from collections.abc import Callable, Sequence
from typing import cast

from quorum_node.broker.batch import NO_PRODUCER, Marker
from quorum_node.broker.batch import Batch as PlacedBatch
from quorum_node.records.batches import Batch, CorruptBatch, decode_records, read_header
from quorum_node.schema.primitives import Buffer
from quorum_node.storage.atomic_file import read_at
from quorum_node.storage.broker.batch_walk import FileBatch, batch_at
from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.broker.producer_table import ProducerTable
from quorum_node.storage.broker.transaction_index import AbortedTransaction

_ABORT, _COMMIT = 0, 1


def marker_of(data: Buffer) -> Marker | None:
    """The marker in a control batch; None if compaction removed its record. Raises CorruptBatch."""
    view = memoryview(data)
    header = read_header(view)
    for record in decode_records(Batch(header, view)):
        key, value = record.key or b"", record.value or b""
        kind = int.from_bytes(key[2:4], "big")
        if len(key) < 4 or len(value) < 6 or kind not in (_ABORT, _COMMIT):
            raise CorruptBatch(0, f"a control record that is not a transaction marker: {key.hex()}")
        return Marker(kind == _ABORT, int.from_bytes(value[2:6], "big", signed=True))
    return None


def follow(
    table: ProducerTable, batch: FileBatch, read: Callable[[], Buffer]
) -> AbortedTransaction | None:
    """Apply a `batch` of the log. `read` returns its bytes. Raises CorruptBatch."""
    aborted = None
    if batch.producer_id != NO_PRODUCER:
        if not batch.is_control:
            table.add_batch(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.base_offset,
                batch.end_offset,
                batch.max_timestamp_ms,
                is_transactional=batch.is_transactional,
            )
        elif batch.record_count and (marker := marker_of(read())) is not None:
            aborted = table.add_marker(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_offset,
                batch.max_timestamp_ms,
                marker,
            )
    table.end_offset = max(table.end_offset, batch.end_offset)
    return aborted


def follow_appended(
    table: ProducerTable, segment: DataSegment, batches: Sequence[PlacedBatch]
) -> None:
    """Apply batches that were just appended to a segment, with their aborted transactions. Raises OSError."""
    for batch in batches:
        if batch.producer_id != NO_PRODUCER:
            data = cast(bytes, batch.data)
            header = batch_at(data, 0, 0, len(data))
            aborted = follow(table, header, lambda data=data: data)  # type: ignore[misc]
            if aborted is not None:
                segment.aborted.append(aborted)
    table.end_offset = batches[-1].end_offset


def follow_in_segment(
    table: ProducerTable, segment: DataSegment, batch: FileBatch
) -> AbortedTransaction | None:
    """As `follow`, for a batch of a segment. Raises DamagedLog."""
    try:
        return follow(
            table,
            batch,
            lambda: read_at(segment.fd, batch.size_bytes, batch.position, segment.files),
        )
    except CorruptBatch as error:
        raise DamagedLog(f"{segment.path}, offset {batch.base_offset}: {error}") from error
