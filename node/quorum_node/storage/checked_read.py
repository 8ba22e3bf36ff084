"""Verifies that batches read from a log are those that were written.

Owns the check of everything that a flipped bit may change: checksums, and base offsets and epochs,
which no checksum covers. Must not know the consequences of a failure.
"""

from bisect import bisect_right
from collections.abc import Sequence

from quorum_node.records.batches import Batch, CorruptBatch, split_batches
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.leader_epochs import EpochStarts
from quorum_node.storage.segment import Segment


def check_batches(data: bytes, start_offset: int, epoch_starts: EpochStarts, name: str) -> int:
    """Check that `data` is whole batches from the one that contains `start_offset` on; returns
    their end offset.

    Raises StorageFailure otherwise. `epoch_starts`: (epoch, first offset) of the log, at least from
    the first batch of `data` on.
    """
    try:
        batches, trailing = split_batches(data)
    except CorruptBatch as error:
        raise StorageFailure(f"{name} is damaged from offset {start_offset} on: {error}") from error
    if trailing or not batches:
        text = f"{trailing} bytes are not a whole batch" if trailing else "batch missing"
        raise StorageFailure(f"{name} is damaged from offset {start_offset} on: {text}")
    first = batches[0].header
    if not first.base_offset <= start_offset < first.end_offset:
        text = f"found offset {first.base_offset}"
        raise StorageFailure(f"{name} is damaged at offset {start_offset}: {text}")
    problem = misplaced(batches, first.base_offset, epoch_starts)
    if problem is not None:
        raise StorageFailure(f"{name} is damaged at {problem}")
    return batches[-1].header.end_offset


def check_batch_at(
    segment: Segment, offset: int, end_offset: int, epoch_starts: EpochStarts
) -> None:
    """Raise StorageFailure unless the batch that contains `offset` is valid and ends by
    `end_offset`, the log's end.
    """
    check_batches(segment.read(offset, 1, end_offset), offset, epoch_starts, str(segment.path))


def misplaced(batches: Sequence[Batch], offset: int, epoch_starts: EpochStarts) -> str | None:
    """Why offsets or epochs of batches are wrong, the first of which has to be at `offset`; None if
    they are right.
    """
    starts = [start for _, start in epoch_starts]
    for batch in batches:
        header = batch.header
        if header.base_offset != offset:
            return f"offset {offset}: found offset {header.base_offset}"
        place = bisect_right(starts, offset) - 1
        if place >= 0 and header.leader_epoch != epoch_starts[place][0]:
            found = f"found epoch {header.leader_epoch}, not {epoch_starts[place][0]}"
            return f"offset {offset}: {found}"
        offset = header.end_offset
    return None
