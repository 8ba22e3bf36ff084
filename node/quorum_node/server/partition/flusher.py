"""fsync off the loop: one worker thread. What arrives meanwhile shares the next flush.

Once a second at most, while there is something new, the thread also makes durable what is known of the synced end: not
before the answer to a flush, so a commit waits for it only if it comes in that moment.

Knows the log's `flush` and `settle` and the driver's ticket, nothing of what they protect.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable

from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure

_SETTLE_SECONDS = 1.0
_SETTLE = -1
"""In place of a ticket."""

FlushDone = Callable[[int, int | StorageFailure | DiskFull], None]
"""(ticket, durable end offset or failure), on the loop's thread."""


class ThreadFlusher:
    """At most one flush at a time: the driver starts the next when it heard of the last."""

    def __init__(
        self,
        flush: Callable[[], int],
        settle: Callable[[], None],
        done: FlushDone,
        metrics: PartitionMetrics,
    ) -> None:
        self._flush = flush
        self._settle = settle
        self._settle_timer: asyncio.TimerHandle | None = None
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

    def settle_soon(self) -> None:
        """The log was synced: let the synced end be durable within a second. Called on the loop's thread."""
        if self._settle_timer is None:
            self._settle_timer = self._loop.call_later(_SETTLE_SECONDS, self._settle_now)

    def _settle_now(self) -> None:
        self._settle_timer = None
        self._work.put(_SETTLE)

    def close(self) -> None:
        """End the thread after a flush that is under way."""
        if self._settle_timer is not None:
            self._settle_timer.cancel()
        self._work.put(None)

    def _run(self) -> None:
        while (ticket := self._work.get()) is not None:
            result: int | StorageFailure | DiskFull
            started = time.perf_counter()
            try:
                if ticket == _SETTLE:
                    self._settle()
                    continue
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
        if isinstance(result, int):  # no sync is tried again after one that failed
            self.settle_soon()
        self._metrics.count("flushes")
        self._metrics.observe("flush_latency_seconds", seconds)
        self._done(ticket, result)
