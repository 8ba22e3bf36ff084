"""Offsets by timestamp, for ListOffsets.

Owns the search through the time index, the headers of batches, and the records of one batch. Only
that batch is decompressed. A search is done in pieces: if timestamps do not ascend, the time index
says little, and all headers of a segment have to be read.
Source: KIP-33, KIP-79, KIP-734 (the record with the largest timestamp).
"""

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple, TypeVar

from quorum_node.records.batches import CorruptBatch
from quorum_node.storage.atomic_file import read_at
from quorum_node.storage.broker.batch_walk import FileBatch
from quorum_node.storage.broker.codecs import UnknownCodec
from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.errors import VoidSearch
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.stored_records import stored_records

_T = TypeVar("_T")
_PIECE = 500
"""Headers of batches, or records, that are examined in one piece: about 1 ms."""


class FoundOffset(NamedTuple):
    """A record, and the leader epoch of its batch."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


Search = Generator[None, None, FoundOffset | None]
"""A search, which yields after each piece. It is void if the log is truncated between two of them: see `searched`."""


def searched(log: PartitionLog, search: Search) -> Search:
    """The result of a search in this log, whose files are kept open meanwhile. Raises VoidSearch, StorageFailure or DiskFull."""
    cuts = log.cuts
    with log.held:
        while True:
            if not log.is_uncut(cuts) or log.held.is_closed:
                raise VoidSearch
            try:
                log.searched(lambda: next(search))
            except StopIteration as end:
                found: FoundOffset | None = end.value
                return found
            yield


def offset_for_timestamp(
    log: PartitionLog, timestamp_ms: int, limit_offset: int | None = None
) -> Search:
    """The first record from the log's start on, below `limit_offset`, with that timestamp or a later one.

    Raises StorageFailure.
    """
    limit = log.end_offset if limit_offset is None else limit_offset
    for segment in log.segments:
        if segment.end_offset <= log.start_offset or segment.max_timestamp_ms < timestamp_ms:
            continue
        begin = max(segment.times.before(timestamp_ms), log.start_offset)
        for batch in _in_pieces(segment.batches(begin)):
            if batch is None:
                yield
                continue
            if batch.base_offset >= limit:
                return None
            # Compaction can leave a batch without records, which keeps its timestamp.
            is_empty = not batch.record_count
            if is_empty or batch.max_timestamp_ms < timestamp_ms or batch.end_offset <= begin:
                continue
            found = yield from _first_in(segment, batch, timestamp_ms, log.start_offset)
            if found is not None:
                return found if found.offset < limit else None
    return None


def offset_of_newest(log: PartitionLog, limit_offset: int | None = None) -> Search:
    """The first of the records with the largest timestamp from the log's start on, below `limit_offset`. Raises StorageFailure.

    Of records without timestamps it is the first one, as for a stock broker. A stock broker also finds a deleted record, if its segment is
    still there.
    """
    start, limit = log.start_offset, log.end_offset if limit_offset is None else limit_offset
    newest = -1
    # The first segment is the last one, as deleted records in it may make a walk necessary.
    for segment in reversed(log.segments):
        is_within = start < segment.end_offset and segment.base_offset < limit
        if not is_within or segment.max_timestamp_ms <= newest:
            continue
        if segment.end_offset <= limit and segment.max_timestamp_offset >= start:
            newest = segment.max_timestamp_ms
        else:
            newest = max(newest, (yield from _newest_in(segment, start, limit)))
    found = yield from offset_for_timestamp(log, newest, limit)
    if found is None and newest >= 0:
        # It is the timestamp of a batch without records, or of a deleted record.
        newest = -1
        for segment in log.segments:
            batches = segment.batches(segment.base_offset)
            newest = max(newest, (yield from _newest_of_all(segment, batches, start, limit)))
        found = yield from offset_for_timestamp(log, newest, limit)
    return found


def _newest_in(
    segment: DataSegment, start_offset: int, limit_offset: int
) -> Generator[None, None, int]:
    """Largest timestamp of its batches in this part of the log; -1 without any."""
    if segment.base_offset < start_offset:
        # The index has the largest timestamp so far, which may be that of a deleted record.
        batches, indexed = segment.batches(start_offset), -1
    else:
        batches = segment.batches_after_index(limit_offset - 1)
        indexed = segment.times.largest_before(limit_offset)
    walked = yield from _newest_of_all(segment, batches, start_offset, limit_offset)
    return max(indexed, walked)


def _newest_of_all(
    segment: DataSegment, batches: Iterator[FileBatch], start_offset: int, limit_offset: int
) -> Generator[None, None, int]:
    """Largest timestamp of those that have records from `start_offset` on, and end by `limit_offset`; -1 without any."""
    newest = -1
    for each in _in_pieces(batches):
        if each is None:
            yield
        elif each.end_offset > limit_offset:
            break
        elif (
            each.record_count and each.end_offset > start_offset and each.max_timestamp_ms > newest
        ):
            newest = max(newest, (yield from _newest_of(segment, each, start_offset)))
    return newest


def _newest_of(
    segment: DataSegment, batch: FileBatch, start_offset: int
) -> Generator[None, None, int]:
    if batch.base_offset >= start_offset:
        return batch.max_timestamp_ms
    data = read_at(segment.fd, batch.size_bytes, batch.position, segment.files)
    newest = -1
    try:
        for each in _in_pieces(stored_records(data)):
            if each is None:
                yield
            elif each.offset >= start_offset:
                newest = max(newest, each.timestamp_ms)
    except (UnknownCodec, CorruptBatch):
        return batch.max_timestamp_ms
    return newest


def _first_in(
    segment: DataSegment, batch: FileBatch, timestamp_ms: int, start_offset: int
) -> Search:
    data = read_at(segment.fd, batch.size_bytes, batch.position, segment.files)
    try:
        for record in _in_pieces(stored_records(data)):
            if record is None:
                yield
            elif record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return FoundOffset(record.offset, record.timestamp_ms, batch.leader_epoch)
    except (UnknownCodec, CorruptBatch):
        # The header states that the timestamp is in this batch; a reader that starts at the batch
        # finds it.
        offset = max(batch.base_offset, start_offset)
        return FoundOffset(offset, batch.max_timestamp_ms, batch.leader_epoch)
    return None


def _in_pieces(found: Iterable[_T]) -> Iterator[_T | None]:
    """What was found, and None after each piece."""
    for number, each in enumerate(found, 1):
        yield each
        if not number % _PIECE:
            yield None
