"""When a new segment begins. Owns the rules of a stock broker (`LogSegment.shouldRoll`)."""

from collections.abc import Callable

from quorum_node.broker.batch import Batch
from quorum_node.storage.broker.data_segment import LARGEST_RELATIVE_OFFSET, DataSegment
from quorum_node.storage.broker.log_settings import LogSettings


def must_roll(
    segment: DataSegment, batch: Batch, settings: LogSettings, clock_ms: Callable[[], int]
) -> bool:
    """Whether `batch` needs a new segment: because of size, time, a full index, or its offset."""
    if batch.end_offset - segment.base_offset - 1 > LARGEST_RELATIVE_OFFSET:
        return True
    if not segment.size_bytes:
        return False
    if segment.size_bytes + batch.size_bytes > settings.segment_bytes:
        return True
    most = settings.segment_index_bytes
    if (segment.offsets.count + 1) * segment.offsets.entry.size > most:
        return True
    if (segment.times.count + 1) * segment.times.entry.size > most:
        return True
    if segment.first_timestamp_ms >= 0:
        return batch.max_timestamp_ms - segment.first_timestamp_ms > settings.segment_ms
    return clock_ms() - segment.created_ms > settings.segment_ms
