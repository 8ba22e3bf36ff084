"""Offsets by timestamp, for ListOffsets.

Owns the search through the time index, the headers of batches, and the records of one batch. Only
that batch is decompressed. Source: KIP-33, KIP-79, KIP-734 (the record with the largest timestamp).
"""

from typing import NamedTuple

from quorum_node.records.batches import CorruptBatch
from quorum_node.storage.atomic_file import read_at
from quorum_node.storage.broker.batch_walk import FileBatch
from quorum_node.storage.broker.codecs import UnknownCodec
from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.stored_records import stored_records


class FoundOffset(NamedTuple):
    """A record, and the leader epoch of its batch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def offset_for_timestamp(
    log: PartitionLog, timestamp_ms: int, limit_offset: int | None = None
) -> FoundOffset | None:
    """The first record from the log's start on, below `limit_offset`, with that timestamp or a later one.

    Raises StorageFailure.
    """
    limit = log.end_offset if limit_offset is None else limit_offset
    for segment in log.segments:
        is_active = segment is log.segments[-1]
        if segment.end_offset <= log.start_offset or (
            segment.max_timestamp_ms < timestamp_ms and not is_active
        ):
            continue
        begin = max(segment.times.before(timestamp_ms), log.start_offset)
        for batch in segment.batches(begin):
            if batch.base_offset >= limit:
                return None
            # Compaction can leave a batch without records, which keeps its timestamp.
            is_empty = not batch.record_count
            if is_empty or batch.max_timestamp_ms < timestamp_ms or batch.end_offset <= begin:
                continue
            found = _first_in(segment, batch, timestamp_ms, log.start_offset)
            if found is not None:
                return found if found.offset < limit else None
    return None


def offset_of_newest(log: PartitionLog, limit_offset: int | None = None) -> FoundOffset | None:
    """The first of the records with the largest timestamp from the log's start on, below `limit_offset`. Raises StorageFailure.

    Of records without timestamps it is the first one, as for a stock broker. A stock broker also finds a deleted record, if its segment is
    still there.
    """
    limit = log.end_offset if limit_offset is None else limit_offset
    newest = -1
    for segment in log.segments:
        if segment.end_offset <= limit:
            newest = max(newest, segment.max_timestamp_ms)
        elif segment.base_offset < limit:
            newest = max(newest, _newest_in(segment, log.start_offset, limit))
    found = offset_for_timestamp(log, newest, limit)
    if found is None and newest >= 0:
        # It is the timestamp of a batch without records, or of a deleted record.
        newest = max(_newest_in(each, log.start_offset, limit) for each in log.segments)
        found = offset_for_timestamp(log, newest, limit)
    return found


def _newest_in(segment: DataSegment, start_offset: int, limit_offset: int) -> int:
    """Largest timestamp of the batches with records that end by `limit_offset`; -1 without any. Records below `start_offset` are deleted."""
    return max(
        (
            _newest_of(segment, each, start_offset)
            for each in segment.batches(max(segment.base_offset, start_offset))
            if each.record_count and start_offset < each.end_offset <= limit_offset
        ),
        default=-1,
    )


def _newest_of(segment: DataSegment, batch: FileBatch, start_offset: int) -> int:
    if batch.base_offset >= start_offset:
        return batch.max_timestamp_ms
    data = read_at(segment.fd, batch.size_bytes, batch.position, segment.files)
    try:
        return max(
            (each.timestamp_ms for each in stored_records(data) if each.offset >= start_offset),
            default=-1,
        )
    except (UnknownCodec, CorruptBatch):
        return batch.max_timestamp_ms


def _first_in(
    segment: DataSegment, batch: FileBatch, timestamp_ms: int, start_offset: int
) -> FoundOffset | None:
    data = read_at(segment.fd, batch.size_bytes, batch.position, segment.files)
    try:
        for record in stored_records(data):
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return FoundOffset(record.offset, record.timestamp_ms, batch.leader_epoch)
    except (UnknownCodec, CorruptBatch):
        # The header states that the timestamp is in this batch; a reader that starts at the batch
        # finds it.
        offset = max(batch.base_offset, start_offset)
        return FoundOffset(offset, batch.max_timestamp_ms, batch.leader_epoch)
    return None
