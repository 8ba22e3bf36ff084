"""Syncs of the log beside the loop. What arrives meanwhile shares the next flush.

Most flushes are one sync of one file: the kernel does it, and its end is an event of the loop. A worker thread does the
others (a new segment, a seal), and all where the kernel has no such thing.

Once a second at most, while there is something new, the thread also makes durable what is known of the synced end: not
before the answer to a flush, so a commit waits for it only if it comes in that moment.

Knows how the log is flushed and the driver's ticket, nothing of what they protect.
"""

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.kernel_sync import KernelSync

_SETTLE_SECONDS = 1.0
_SETTLE = -1
"""In place of a ticket."""

FlushDone = Callable[[int, int | StorageFailure | DiskFull], None]
"""(ticket, durable end offset or failure), on the loop's thread."""


class FlushedLog(Protocol):
    """What is used of `SegmentedLog`. All but `begin_sync` may raise StorageFailure or DiskFull."""

    def flush(self) -> int: ...

    def begin_sync(self, kernel: KernelSync) -> bool: ...

    def end_sync(self) -> int: ...

    def settle(self) -> None: ...


class LogFlusher:
    """At most one flush at a time: the driver starts the next when the last has ended."""

    def __init__(
        self,
        log: FlushedLog,
        done: FlushDone,
        metrics: PartitionMetrics,
        kernel: KernelSync | None = None,
    ) -> None:
        """`kernel`: becomes the flusher's. None: the thread does all."""
        self._log = log
        self._kernel = kernel
        self._begun = (0, 0.0)
        """Ticket and time of the sync that the kernel does."""
        self._settle_timer: asyncio.TimerHandle | None = None
        self._done = done
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self.busy_since: float | None = None
        """Loop time at which the flush under way began."""
        self._work: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-flusher", daemon=True)
        self._thread.start()
        if kernel is not None:
            self._loop.add_reader(kernel.eventfd, self._kernel_ended, kernel)

    def start(self, ticket: int) -> None:
        """Flush now. Called on the loop's thread."""
        self.busy_since = self._loop.time()
        if self._kernel is not None and self._log.begin_sync(self._kernel):
            self._begun = ticket, time.perf_counter()
        else:
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
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.eventfd)
            self._kernel.close()
        self._work.put(None)

    def _run(self) -> None:
        while (ticket := self._work.get()) is not None:
            result: int | StorageFailure | DiskFull
            started = time.perf_counter()
            try:
                if ticket == _SETTLE:
                    self._log.settle()
                    continue
                result = self._log.flush()
            except (StorageFailure, DiskFull) as failure:
                result = failure
            seconds = time.perf_counter() - started
            try:
                self._loop.call_soon_threadsafe(self._finished, ticket, result, seconds)
            except RuntimeError:
                return  # the loop is closed: the process ends

    def _kernel_ended(self, kernel: KernelSync) -> None:
        os.eventfd_read(kernel.eventfd)
        ticket, started = self._begun
        result: int | StorageFailure | DiskFull
        try:
            result = self._log.end_sync()
        except (StorageFailure, DiskFull) as failure:
            result = failure
        self._finished(ticket, result, time.perf_counter() - started)

    def _finished(
        self, ticket: int, result: int | StorageFailure | DiskFull, seconds: float
    ) -> None:
        self.busy_since = None
        if isinstance(result, int):  # no sync is tried again after one that failed
            self.settle_soon()
        self._metrics.count("flushes")
        self._metrics.observe("flush_latency_seconds", seconds)
        self._done(ticket, result)
