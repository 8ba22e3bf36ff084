"""fsync off the loop: one worker thread. What arrives meanwhile shares the next flush.

Knows the log's `flush` and the driver's ticket, nothing of what they protect.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable

from quorum_node.server.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure

FlushDone = Callable[[int, int | StorageFailure | DiskFull], None]
"""(ticket, durable end offset or failure), on the loop's thread."""


class ThreadFlusher:
    """At most one flush at a time: the driver starts the next when it heard of the last."""

    def __init__(
        self, flush: Callable[[], int], done: FlushDone, metrics: PartitionMetrics
    ) -> None:
        self._flush = flush
        self._done = done
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self.busy_since: float | None = None
        """Loop time at which the flush under way began."""
        self._work: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-flusher", daemon=True)
        self._thread.start()

    def start(self, ticket: int) -> None:
        """Flush now. Called on the loop's thread."""
        self.busy_since = self._loop.time()
        self._work.put(ticket)

    def close(self) -> None:
        """End the thread after a flush that is under way."""
        self._work.put(None)

    def _run(self) -> None:
        while (ticket := self._work.get()) is not None:
            result: int | StorageFailure | DiskFull
            started = time.perf_counter()
            try:
                result = self._flush()
            except (StorageFailure, DiskFull) as failure:
                result = failure
            seconds = time.perf_counter() - started
            try:
                self._loop.call_soon_threadsafe(self._finished, ticket, result, seconds)
            except RuntimeError:
                return  # the loop is closed: the process ends

    def _finished(
        self, ticket: int, result: int | StorageFailure | DiskFull, seconds: float
    ) -> None:
        self.busy_since = None
        self._metrics.count("flushes")
        self._metrics.observe("flush_latency_seconds", seconds)
        self._done(ticket, result)
