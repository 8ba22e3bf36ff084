"""Writes one snapshot of an image, on a thread of its own, and never long at a time.

Owns the pace. Knows nothing of when a snapshot is due.

Encoding is Python, and so it shares the interpreter with the loop that answers clients. A thread that works on
would hold the loop up for the interpreter's switch interval at every turn; so this one works for a fraction of a
millisecond and then rests for as long as the rest of the process has worked meanwhile. Beside a busy loop it takes half
of the time at most, beside an idle one all of it.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.snapshots import SnapshotStore

_WORK_SECONDS = 0.0003
_LONGEST_REST_SECONDS = 0.0003
_LEAST_REST_SECONDS = 0.00002
"""Less is no work of others: a timer, or the reading of these clocks."""
_LOOK_AT_CLOCK_EVERY = 16


@dataclass(frozen=True, slots=True)
class Written:
    """A snapshot that is durable."""

    id: SnapshotId
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotWritten:
    """`error` says why; nothing of the snapshot is left."""

    id: SnapshotId
    error: Exception


def write_snapshot(
    store: SnapshotStore, id: SnapshotId, bounds: SnapshotBounds, image: ClusterImage
) -> Written | NotWritten:
    """Blocks until it is done. Never raises: whatever goes wrong is told to the loop."""
    began = time.perf_counter()
    writer = None
    try:
        writer = store.create(id)
        for data in encode_snapshot(id, bounds, _paced(image.snapshot_records())):
            writer.append(data)
        writer.freeze()
    except (StorageFailure, DiskFull) as error:
        if writer is not None:
            writer.abort()
        return NotWritten(id, error)
    except Exception as error:
        if writer is not None:
            writer.abort()
        return NotWritten(id, error)
    return Written(id, writer.size_bytes, time.perf_counter() - began)


def _paced(values: Iterator[bytes]) -> Iterator[bytes]:
    rest_at, others = time.perf_counter() + _WORK_SECONDS, _others_seconds()
    for number, value in enumerate(values):
        yield value
        if number % _LOOK_AT_CLOCK_EVERY or time.perf_counter() < rest_at:
            continue
        before, others = others, _others_seconds()
        rest = min(others - before, _LONGEST_REST_SECONDS)
        if rest > _LEAST_REST_SECONDS:
            time.sleep(rest)
        rest_at = time.perf_counter() + _WORK_SECONDS


def _others_seconds() -> float:
    """Processor time of all other threads."""
    return time.process_time() - time.thread_time()
