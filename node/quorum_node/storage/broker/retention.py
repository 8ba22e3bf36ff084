"""Retention: which of the oldest segments can be removed. Owns the rules; the log removes the files.

Source: Kafka's documentation, "Topic Configs": retention.ms, retention.bytes; KIP-107 (log start
offset).
"""

from collections.abc import Sequence

from quorum_node.storage.broker.data_segment import DataSegment
from quorum_node.storage.broker.log_settings import FOREVER
from quorum_node.storage.broker.partition_log import PartitionLog


def enforce_retention(log: PartitionLog, high_watermark: int, now_ms: int) -> bool:
    """Remove the oldest segments by start offset, time and size, but nothing at or above `high_watermark`.

    True if any was removed; then `start_offset` may have changed. `now_ms`: time of day. Raises
    StorageFailure or DiskFull.
    """
    segments = log.segments
    count = log.searched(lambda: expired_segments(log, segments, high_watermark, now_ms))
    if not count:
        return False
    if count == len(segments):
        log.roll()
    # A compaction on another thread may have replaced some of them. The next check removes the rest.
    return log.delete_segments(segments[:count])


def expired_segments(
    log: PartitionLog, segments: Sequence[DataSegment], high_watermark: int, now_ms: int
) -> int:
    """Number of the oldest of its `segments` to remove, possibly all."""
    settings = log.settings
    over_bytes = 0
    if settings.deletes and settings.retention_bytes != FOREVER:
        over_bytes = sum(each.size_bytes for each in segments) - settings.retention_bytes
    count = 0
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        end_offset = log.end_offset if is_last else segments[number + 1].base_offset
        if end_offset > high_watermark or (is_last and not segment.size_bytes):
            break
        before_start = end_offset <= log.start_offset and not is_last
        too_large = over_bytes >= segment.size_bytes > 0
        if not (before_start or too_large or _is_old(log, segment, now_ms)):
            break
        over_bytes -= segment.size_bytes
        count += 1
    return count


def _is_old(log: PartitionLog, segment: DataSegment, now_ms: int) -> bool:
    settings = log.settings
    if not settings.deletes or settings.retention_ms == FOREVER:
        return False
    return now_ms - segment.newest_ms() > settings.retention_ms
