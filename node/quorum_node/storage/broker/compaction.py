"""Log compaction of a partition: keeps the newest record of each key.

Owns what is cleaned when, and the two passes over the log. The first collects the newest offset of
each key in the dirty part; the second rewrites the segments. Kept are: tombstones for
delete.retention.ms; markers as long as their transaction has records, and for that time after; the
last batch of each producer; the last batch of the round and of each new segment; all records at or above the first
uncleanable offset. Runs concurrently with appends and reads, in its own thread.
Crash safety: segments are written with the suffix `.cleaned`, synced, renamed to `.swap`, and only
then renamed to replace the old segments. When the log is opened, swaps are completed and unfinished
files removed.
Source: Kafka's documentation, "Log Compaction"; the rules of a stock broker (`Cleaner`,
`LogCleanerManager`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from crc32c import crc32c

from quorum_node.records.batches import CRC_COVERS_FROM, CorruptBatch
from quorum_node.storage.atomic_file import read_at
from quorum_node.storage.broker.batch_walk import FileBatch
from quorum_node.storage.broker.codecs import UnknownCodec
from quorum_node.storage.broker.compacted_batch import compacted, empty_batch, horizon_of
from quorum_node.storage.broker.compaction_map import CompactionMap
from quorum_node.storage.broker.compaction_transactions import TransactionTracker
from quorum_node.storage.broker.data_segment import (
    LARGEST_RELATIVE_OFFSET,
    Appended,
    DataSegment,
)
from quorum_node.storage.broker.errors import DamagedLog
from quorum_node.storage.broker.log_loading import CLEANED_SUFFIX
from quorum_node.storage.broker.log_settings import NO_LAG_LIMIT
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.producer_walk import marker_of
from quorum_node.storage.broker.stored_records import StoredRecord, stored_records
from quorum_node.storage.errors import classify

DEFAULT_MAP_BYTES = 128 << 20
_MAX_TIMESTAMP = slice(35, 43)
"""Position of maxTimestamp in the header of a batch. Source: Kafka's documentation, "Record Batch"."""


class Uncleanable(Exception):
    """The log can't be compacted. No data is lost, it only grows."""


class LogChanged(Exception):
    """The log was closed or truncated meanwhile."""


@dataclass(frozen=True, slots=True)
class CleanablePart:
    """The dirty part from `start_offset` to `end_offset` (exclusive), which can be cleaned."""

    start_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    oldest_ms: int
    """Smallest timestamp of the first batches of the dirty segments; -1 if there is none, or max.compaction.lag.ms has its default."""

    def is_due(self, log: PartitionLog, now_ms: int) -> bool:
        """Whether the dirty part is large or old enough for a pass."""
        if not self.dirty_bytes or self.end_offset <= self.start_offset:
            return False
        share = self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)
        lag_ms = now_ms - self.oldest_ms
        is_late = self.oldest_ms >= 0 and lag_ms > log.settings.max_compaction_lag_ms
        return share > log.settings.min_cleanable_dirty_ratio or is_late


def cleanable_part(
    log: PartitionLog, cleaned_offset: int, high_watermark: int, now_ms: int
) -> CleanablePart:
    """`cleaned_offset`: from cleaner-offset-checkpoint, 0 if it has no entry. `now_ms`: time of day."""
    segments = log.segments
    first_unstable = log.first_unstable_offset(high_watermark)
    ends = [segments[-1].base_offset, high_watermark]
    if first_unstable is not None:
        ends.append(first_unstable)
    lag_ms = log.settings.min_compaction_lag_ms
    if lag_ms:
        ends += _first_younger(log, segments, now_ms - lag_ms)
    start = max(cleaned_offset, log.start_offset, segments[0].base_offset)
    if cleaned_offset > log.end_offset:
        start = segments[0].base_offset  # the log was truncated, or it is another one
    end = max(min(ends), start)
    dirty = [s for s in segments[:-1] if s.end_offset > start and s.base_offset < end]
    clean = [s for s in segments[:-1] if s.end_offset <= start]
    return CleanablePart(
        start,
        end,
        sum(each.size_bytes for each in clean),
        sum(each.size_bytes for each in dirty),
        -1 if log.settings.max_compaction_lag_ms == NO_LAG_LIMIT else _oldest_ms(log, dirty),
    )


def _first_younger(log: PartitionLog, segments: Sequence[DataSegment], limit_ms: int) -> list[int]:
    """Base offset of the first segment whose newest record is younger; empty if there is none."""
    with log.held:
        if log.held.is_closed:
            return []
        try:
            young = (each.base_offset for each in segments if each.newest_ms() > limit_ms)
            return list(islice(young, 1))
        except OSError as error:
            raise classify(error, f"read {log.directory}") from error


def _oldest_ms(log: PartitionLog, segments: Sequence[DataSegment]) -> int:
    """Smallest timestamp of the first batches; -1 if there is none."""
    with log.held:
        if log.held.is_closed:
            return -1
        try:
            found = [_first_ms(each) for each in segments]
        except DamagedLog:
            # Whoever reads the records reports it.
            found = [each.max_timestamp_ms for each in segments]
        except OSError as error:
            raise classify(error, f"read {log.directory}") from error
    return min((each for each in found if each >= 0), default=-1)


def _first_ms(segment: DataSegment) -> int:
    if segment.first_timestamp_ms < 0 and segment.size_bytes:
        # It is not known of a segment that was already closed when the log was opened.
        first = next(segment.batches(segment.base_offset), None)
        segment.first_timestamp_ms = -1 if first is None else first.max_timestamp_ms
    return segment.first_timestamp_ms


def compact(
    log: PartitionLog,
    part: CleanablePart,
    now_ms: int,
    *,
    cuts: int | None = None,
    map_bytes: int = DEFAULT_MAP_BYTES,
    throttle: Callable[[int], None] = lambda _: None,
    replaced: Callable[[], None] = lambda: None,
) -> int:
    """Clean `part` as far as the memory for keys allows; returns the first dirty offset.

    `cuts`: of the log before `part` was determined; None: now. `throttle` is called with the bytes that were read and written. It may
    wait, or raise to abort. `replaced` is called after each group of segments, while this thread uses no file: a large log takes hours, and
    the old segments would need as much space until then.
    Raises LogChanged, StorageFailure, DiskFull, and Uncleanable if a batch is unreadable or damaged.
    """
    if cuts is None:
        cuts = log.cuts
    try:
        with log.held:
            _present(log, (), cuts)
            known = _newest_of_keys(log, part, map_bytes, throttle)
        if known.end_offset <= part.start_offset:
            return part.start_offset
        transactions = TransactionTracker()
        for group in _groups(log, known.end_offset):
            with log.held:
                present = _present(log, group, cuts)
                if len(present) < len(group):
                    # Ends of transactions were removed with them: what follows is like the beginning of a log.
                    transactions = TransactionTracker()
                if present:
                    _Pass(log, known, transactions, now_ms, throttle).replace(present, cuts)
            replaced()
        return known.end_offset
    except (UnknownCodec, CorruptBatch, DamagedLog) as error:
        raise Uncleanable(
            f"{log.directory} is not compacted, as a batch can't be read: {error}"
        ) from error
    except OSError as error:
        raise classify(error, f"compact {log.directory}") from error


def _present(
    log: PartitionLog, segments: Sequence[DataSegment], cuts: int
) -> Sequence[DataSegment]:
    """Those that retention has not removed. Their files are open, and stay so while they are held. Raises LogChanged."""
    if log.held.is_closed or not log.is_uncut(cuts):
        raise LogChanged
    return [each for each in segments if each in log.segments]


def _newest_of_keys(
    log: PartitionLog, part: CleanablePart, map_bytes: int, throttle: Callable[[int], None]
) -> CompactionMap:
    known = CompactionMap(map_bytes)
    known.end_offset = part.start_offset
    transactions = TransactionTracker()
    transactions.expect(log.aborted_transactions(part.start_offset, part.end_offset))
    for segment in log.segments:
        if segment.end_offset <= part.start_offset:
            continue
        if segment.base_offset >= part.end_offset:
            break
        for batch in segment.batches(max(part.start_offset, segment.base_offset)):
            if batch.end_offset <= part.start_offset:
                continue
            if batch.end_offset > part.end_offset or known.is_full:
                return known
            data = _bytes_of(segment, batch)
            throttle(len(data))
            if batch.is_control:
                transactions.is_obsolete(batch, marker_of(data) if batch.record_count else None)
            elif not transactions.is_aborted(batch) and batch.record_count:
                for record in stored_records(data):
                    if record.key is not None and record.offset >= part.start_offset:
                        known.put(record.key, record.offset)
            known.end_offset = batch.end_offset
    known.end_offset = max(known.end_offset, part.end_offset)
    return known


def _groups(log: PartitionLog, end_offset: int) -> list[list[DataSegment]]:
    """Groups of adjacent segments that fit into one segment."""
    settings = log.settings
    groups: list[list[DataSegment]] = []
    size_bytes = entries = 0
    for segment in log.segments[:-1]:
        if segment.base_offset >= end_offset:
            break
        size_bytes += segment.size_bytes
        entries += max(segment.offsets.count, segment.times.count) + 1
        fits = (
            groups
            and size_bytes <= settings.segment_bytes
            and entries * segment.times.entry.size <= settings.segment_index_bytes
            and segment.end_offset - groups[-1][0].base_offset <= LARGEST_RELATIVE_OFFSET
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
            entries = max(segment.offsets.count, segment.times.count) + 1
    return groups


def _bytes_of(segment: DataSegment, batch: FileBatch) -> bytes:
    """Bytes of a batch, with verified checksum: a rewritten batch gets a new checksum, which would
    hide damage.
    """
    data = read_at(segment.fd, batch.size_bytes, batch.position, segment.files)
    if len(data) != batch.size_bytes:
        raise DamagedLog(f"{segment.path} ends within the batch at byte {batch.position}")
    crc = crc32c(memoryview(data)[CRC_COVERS_FROM:])
    if crc != batch.crc:
        raise DamagedLog(
            f"{segment.path}, byte {batch.position}: CRC-32C is {crc:08x}, the header says {batch.crc:08x}"
        )
    return data


class _Pass:
    """The second pass over one group of segments."""

    def __init__(
        self,
        log: PartitionLog,
        known: CompactionMap,
        transactions: TransactionTracker,
        now_ms: int,
        throttle: Callable[[int], None],
    ) -> None:
        self._log = log
        self._known = known
        self._transactions = transactions
        self._now_ms = now_ms
        self._throttle = throttle
        self._last_of = log.last_batches_of_producers()
        self._ends = {known.end_offset}

    def replace(self, group: Sequence[DataSegment], cuts: int) -> None:
        """`cuts`: of the log when the first pass began."""
        log, first = self._log, group[0]
        # Without a gap to the next segment: after a power loss, a gap is an end that was never synced.
        self._ends.add(group[-1].end_offset)
        self._transactions.expect(log.aborted_transactions(first.base_offset, group[-1].end_offset))
        self._transactions.remaining_aborted = []
        cleaned = DataSegment(
            first.files,
            first.directory,
            first.base_offset,
            index_interval_bytes=log.settings.index_interval_bytes,
            now_ms=group[-1].created_ms,
            suffix=CLEANED_SUFFIX,
        )
        try:
            cleaned.clear_indexes()
            cleaned.cut_back()
            for segment in group:
                for batch in segment.batches(segment.base_offset):
                    self._copy(segment, batch, cleaned)
            cleaned.aborted.replace(self._transactions.remaining_aborted)
            cleaned.close_for_appends()
            # Retention of records without timestamps uses it.
            cleaned.files.set_modified_ms(cleaned.fd, group[-1].modified_ms())
            cleaned.sync()
            replaced = log.replace_segments(group, cleaned, cuts)
        except BaseException:
            _remove(cleaned)
            raise
        if not replaced:
            _remove(cleaned)

    def _copy(self, segment: DataSegment, batch: FileBatch, target: DataSegment) -> None:
        data = _bytes_of(segment, batch)
        kept = self._compacted(data, batch)
        self._throttle(len(data) + len(kept or b""))
        if kept is not None:
            newest_ms = int.from_bytes(kept[_MAX_TIMESTAMP], "big", signed=True)
            target.append(kept, [Appended(len(kept), batch.end_offset, newest_ms)])

    def _compacted(self, data: bytes, batch: FileBatch) -> bytes | None:
        """The remaining batch, or None."""
        keep_empty = self._is_last(batch) or batch.end_offset in self._ends
        horizon = horizon_of(batch)
        is_over = horizon is not None and horizon <= self._now_ms
        is_obsolete_marker = False
        if batch.is_control:
            marker = marker_of(data) if batch.record_count else None
            is_obsolete_marker = self._transactions.is_obsolete(batch, marker)
            is_removed = is_obsolete_marker and (is_over or marker is None)
        else:
            is_removed = self._transactions.is_aborted(batch)
        if batch.base_offset >= self._known.end_offset:
            return data
        if is_removed:
            return empty_batch(batch) if keep_empty else None
        return compacted(
            data,
            batch,
            lambda record: (
                batch.is_control or self._is_retained(record, tombstones_expired=is_over)
            ),
            new_horizon_ms=self._now_ms + self._log.settings.delete_retention_ms,
            keep_empty=keep_empty,
            is_obsolete_marker=is_obsolete_marker,
        )

    def _is_retained(self, record: StoredRecord, *, tombstones_expired: bool) -> bool:
        if record.offset >= self._known.end_offset:
            return True
        if record.key is None:
            return False
        if not record.has_value and tombstones_expired:
            return False
        return self._known.is_newest(record.key, record.offset)

    def _is_last(self, batch: FileBatch) -> bool:
        """Whether it is the last batch of its producer."""
        last = self._last_of.get(batch.producer_id)
        if last is None:
            return False
        if last.end_offset is not None:
            return batch.end_offset == last.end_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _remove(segment: DataSegment) -> None:
    segment.close()
    for path in segment.paths():
        segment.files.unlink(path, missing_ok=True)
