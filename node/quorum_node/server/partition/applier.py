"""Replays committed records into the image, in order, exactly once, outside of the commit's path.

Owns the position up to which the image is applied, and the callbacks that wait for it. Long backlogs (at the start, or when catching up)
and snapshots are replayed in pieces, so that the loop is not blocked.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import perf_counter
from typing import Protocol

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import Batch, CorruptBatch, committed_batches
from quorum_node.records.config_changes import config_changes
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.records.snapshot_format import CorruptSnapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import StorageFailure

_PIECE_BYTES = 256 * 1024
_DAMAGE = (StorageFailure, CorruptBatch, CorruptSnapshot)


class LogReader(Protocol):
    """The method of the log that is used here."""

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Whole batches; see SegmentedLog.read."""


class ApplierPort(Protocol):
    """The applier's port to its replica."""

    def image_behind(
        self, image: ClusterImage, base_offset: int, end_offset: int, epoch: int
    ) -> ClusterImage | None:
        """The image after the batch that follows `image`, if it was made already; else None."""

    def applied(self, size_bytes: int) -> None:
        """This number of bytes of the log was replayed."""

    def image_changed(self) -> None:
        """The image may have changed."""

    def unreadable(self, error: Exception) -> None:
        """The log or a snapshot can't be read: the replica must stop."""


@dataclass(slots=True)
class _Loading:
    """A snapshot that is being loaded into an image of its own, so that a part of it is never visible."""

    id: SnapshotId
    timestamp_ms: int
    batches: Iterator[Batch]
    began: float
    committed: CommittedImage = field(default_factory=CommittedImage)


class Applier:
    """The image of one replica.

    Records that were read correctly and can't be replayed are a bug, not a failed disk: the exception is raised.
    """

    def __init__(self, log: LogReader, port: ApplierPort, metrics: PartitionMetrics) -> None:
        self._metrics = metrics
        self.committed = CommittedImage()
        """The same object for the whole run: its content is replaced when a snapshot was loaded."""
        self._loading: _Loading | None = None
        self._log = log
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._high_watermark = 0
        self._scheduled = False
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._next_waiter = 0
        self._caught_up = False

    def advance(self, high_watermark: int) -> None:
        """Records below `high_watermark` are committed."""
        if high_watermark > self._high_watermark:
            self._high_watermark = high_watermark
        if not self._scheduled and not self._loading and self._behind:
            self._scheduled = True
            self._loop.call_soon(self._apply)

    def load(self, id: SnapshotId, timestamp_ms: int, batches: Iterator[Batch]) -> None:
        """Continue from a verified snapshot. Until it is loaded, the image stays as it was."""
        already = self._loading is not None
        self._loading = _Loading(id, timestamp_ms, batches, perf_counter())
        if not already:
            self._loop.call_soon(self._load_piece)

    @property
    def image(self) -> ClusterImage:
        """The current image. An image is immutable: the next one replaces it."""
        return self.committed.image

    @property
    def loading(self) -> bool:
        """Whether a snapshot is being loaded that is newer than the image."""
        return self._loading is not None

    @property
    def _behind(self) -> bool:
        return self.committed.end_offset < self._high_watermark

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """Call `ready` once everything below `offset` is in the image; at once if it is."""
        if self.committed.end_offset < offset:
            self._apply_now()
        if self.committed.end_offset >= offset:
            ready()
            return
        self._next_waiter += 1
        heappush(self._waiters, (offset, self._next_waiter, ready))

    def _apply(self) -> None:
        self._scheduled = False
        self._apply_now()
        self.advance(self._high_watermark)

    def _apply_now(self) -> None:
        """Apply one piece."""
        committed = self.committed
        if self._loading or not self._behind:
            return
        began = perf_counter()
        try:
            data = self._log.read(committed.end_offset, _PIECE_BYTES, self._high_watermark)
        except StorageFailure as error:  # below the high watermark: the replica must stop
            self._port.unreadable(error)
            return
        batches, damage = committed_batches(data, committed.end_offset, self._high_watermark)
        for batch in batches:
            header = batch.header
            if not header.is_control:
                self._take(committed, batch)
            committed.reached(header.end_offset, header.leader_epoch, header.max_timestamp_ms)
        if damage is not None:
            self._port.unreadable(damage)
            return
        self._metrics.observe("apply_latency_seconds", perf_counter() - began)
        if not self._caught_up:
            self._keep()
            self._caught_up = not self._behind
        self._notify_waiters()
        self._port.applied(len(data))
        self._port.image_changed()

    def _take(self, committed: CommittedImage, batch: Batch) -> None:
        """Replay the batch, unless its image was made already."""
        header = batch.header
        offsets = header.base_offset, header.end_offset
        image = self._port.image_behind(committed.image, *offsets, header.leader_epoch)
        if image is None or committed.in_transaction:
            _replay(committed, batch)
        else:
            committed.take_over(image)

    def _load_piece(self) -> None:
        """Load some batches of a snapshot; the loop runs between two pieces."""
        loading = self._loading
        assert loading is not None
        size_bytes = 0
        try:
            while (batch := next(loading.batches, None)) is not None:
                _replay(loading.committed, batch)
                size_bytes += batch.header.size_bytes
                if size_bytes >= _PIECE_BYTES:
                    self._keep()
                    self._loop.call_soon(self._load_piece)
                    return
        except _DAMAGE as error:  # the snapshot was verified, so the disk fails
            self._port.unreadable(error)
            return
        self._loading = None
        loading.committed.reached(loading.id.end_offset, loading.id.epoch, loading.timestamp_ms)
        self.committed.become(loading.committed)
        self._keep()
        self._metrics.observe("snapshot_load_seconds", perf_counter() - loading.began)
        self._notify_waiters()
        self._port.image_changed()
        self.advance(self._high_watermark)

    def _keep(self) -> None:
        """Exclude the loaded image from garbage collection: it lives as long as the process.

        Scanning it blocked the loop for up to a tenth of a second, and took a third of the loading time. Not done later: everything else
        that is alive at that moment would be excluded from collection, too.
        """
        gc.freeze()

    def _notify_waiters(self) -> None:
        while self._waiters and self._waiters[0][0] <= self.committed.end_offset:
            heappop(self._waiters)[2]()


def _replay(committed: CommittedImage, batch: Batch) -> None:
    changes = None if committed.in_transaction else config_changes(batch)
    if changes is not None:
        committed.replay_configs(changes)
    else:
        committed.replay(decode_batch(batch))
