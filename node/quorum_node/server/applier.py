"""Replays committed records into the image, in order, once, off the commit's path.

Owns the position up to which the image is applied, and who waits for it. Long backlogs (a start, a
catch-up) are replayed in pieces, so that the loop keeps turning.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from time import perf_counter
from typing import Protocol

from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.metadata import decode_metadata
from quorum_node.server.metrics import PartitionMetrics
from quorum_node.state.image import ConfigImage

_PIECE_BYTES = 256 * 1024


class LogReader(Protocol):
    """The part of the log that reading needs."""

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        """Whole batches; see SegmentedLog.read."""


class Applier:
    """The image of one replica. `on_failure` is told of a log that can't be read."""

    def __init__(
        self,
        log: LogReader,
        on_failure: Callable[[Exception], None],
        metrics: PartitionMetrics,
    ) -> None:
        self._metrics = metrics
        self.image = ConfigImage()
        self._log = log
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._high_watermark = 0
        self._scheduled = False
        self._waiters: list[tuple[int, int, Callable[[], None]]] = []
        self._next_waiter = 0

    def advance(self, high_watermark: int) -> None:
        """Records below `high_watermark` are committed."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        if not self._scheduled and self.image.end_offset < self._high_watermark:
            self._scheduled = True
            self._loop.call_soon(self._apply)

    def when_applied(self, offset: int, ready: Callable[[], None]) -> None:
        """Call `ready` once everything below `offset` is in the image; at once if it is."""
        if self.image.end_offset < offset:
            self._apply_now()
        if self.image.end_offset >= offset:
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
        image = self.image
        if image.end_offset >= self._high_watermark:
            return
        began = perf_counter()
        try:
            data = self._log.read(image.end_offset, _PIECE_BYTES, self._high_watermark)
            for batch in split_batches(data)[0]:
                if not batch.header.is_control:
                    for record in decode_records(batch):
                        if record.value is not None:
                            image.replay(decode_metadata(record.value))
                image.end_offset = batch.header.end_offset
        except Exception as error:  # damage below the high watermark: the replica must stop
            self._on_failure(error)
            return
        self._metrics.observe("apply_latency_seconds", perf_counter() - began)
        while self._waiters and self._waiters[0][0] <= image.end_offset:
            heappop(self._waiters)[2]()
