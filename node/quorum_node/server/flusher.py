"""fsync off the loop: one worker thread, group commit.

A flush covers everything appended before it starts; starts that come while one runs become a
single next one. Knows the log's `flush` and nothing of what it protects.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable

from quorum_node.server.metrics import Metrics
from quorum_node.storage.errors import DiskFull, StorageFailure

FlushDone = Callable[[int | StorageFailure | DiskFull], None]


class ThreadFlusher:
    """`done` is called on the loop's thread with the durable end offset, or the failure."""

    def __init__(self, flush: Callable[[], int], done: FlushDone, metrics: Metrics) -> None:
        self._flush = flush
        self._done = done
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._work: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._running = False
        self._again = False
        self._thread = threading.Thread(target=self._run, name="log-flusher", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Flush soon. Called on the loop's thread."""
        if self._running:
            self._again = True
            return
        self._running = True
        self._work.put(True)

    def close(self) -> None:
        """End the thread after a flush that is under way."""
        self._work.put(False)

    def _run(self) -> None:
        while self._work.get():
            result: int | StorageFailure | DiskFull
            started = time.perf_counter()
            try:
                result = self._flush()
            except (StorageFailure, DiskFull) as failure:
                result = failure
            seconds = time.perf_counter() - started
            try:
                self._loop.call_soon_threadsafe(self._finished, result, seconds)
            except RuntimeError:
                return  # the loop is closed: the process ends

    def _finished(self, result: int | StorageFailure | DiskFull, seconds: float) -> None:
        self._running = False
        self._metrics.count("flushes")
        self._metrics.observe("flush_latency_seconds", seconds)
        if self._again and isinstance(result, int):
            self._again = False
            self.start()
        self._done(result)
