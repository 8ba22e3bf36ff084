"""Writes one snapshot of an image, on a thread of its own, and never long at a time.

Owns the pace. Knows nothing of when a snapshot is due.

Encoding is Python, and so it shares the interpreter with the loop that answers clients. A thread that works on
would hold the loop up for the interpreter's switch interval (5 ms) at every turn; so this one works for a fraction
of a millisecond and then sleeps for as long.
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
_REST_SECONDS = 0.0003
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
    rest_at = time.perf_counter() + _WORK_SECONDS
    for number, value in enumerate(values):
        yield value
        if number % _LOOK_AT_CLOCK_EVERY == 0 and time.perf_counter() >= rest_at:
            time.sleep(_REST_SECONDS)
            rest_at = time.perf_counter() + _WORK_SECONDS
