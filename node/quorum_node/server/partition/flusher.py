"""Syncs the log on a worker thread. Appends that arrive during a flush share the next one.

Most flushes are one sync of one file. The thread then makes only that call: every step of Python in the thread would have to wait for a
busy loop (GIL). Flushes with more steps (a new segment, a seal) run completely in the thread.

At most once a second, if there is something new, the thread also stores the synced end and the committed end
durably. It does so after the answer to a flush, so a commit waits for it only if it arrives in that moment.

Handles flushes and the driver's tickets. Must not know which guarantees depend on them.
"""

import asyncio
import errno
import os
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.sync_elsewhere import SyncElsewhere

_SETTLE_SECONDS = 1.0
_SETTLE, _FLUSH = -1, -2
"""Queued instead of a file descriptor: store the ends, or run the whole flush."""

FlushDone = Callable[[int, int | StorageFailure | DiskFull], None]
"""(ticket, durable end offset or failure), on the loop's thread."""


class FlushedLog(Protocol):
    """The methods of `SegmentedLog` that are used here. All but `begin_sync` may raise StorageFailure or DiskFull."""

    def flush(self) -> int: ...

    def begin_sync(self, elsewhere: SyncElsewhere) -> bool: ...

    def end_sync(self) -> int: ...

    def settle(self, committed_end: int = 0) -> None: ...


class LogFlusher:
    """At most one flush at a time: the driver starts the next one when the last has ended."""

    def __init__(
        self,
        log: FlushedLog,
        done: FlushDone,
        metrics: PartitionMetrics,
        committed_end: Callable[[], int],
    ) -> None:
        """`committed_end`: returns the high watermark; called on the loop's thread."""
        self._log = log
        self._read_committed_end = committed_end
        self._committed_end = 0
        self._settle_timer: asyncio.TimerHandle | None = None
        self._done = done
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self.busy_since: float | None = None
        """Loop time in seconds at which the current flush began; None without one."""
        self._ticket = 0
        self._work: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._codes: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-flusher", daemon=True)
        self._thread.start()

    def start(self, ticket: int) -> None:
        """Flush now. Called on the loop's thread."""
        self.busy_since = self._loop.time()
        self._ticket = ticket
        if not self._log.begin_sync(self):
            self._work.put(_FLUSH)

    def submit(self, fd: int) -> None:
        """See `SyncElsewhere`."""
        self._work.put(fd)

    def wait(self) -> int:
        """See `SyncElsewhere`."""
        return self._codes.get()

    def settle_soon(self) -> None:
        """The log was synced, or more of it is committed: store both ends durably within a second. Called on the loop's thread."""
        if self._settle_timer is None:
            self._settle_timer = self._loop.call_later(_SETTLE_SECONDS, self._settle_now)

    def _settle_now(self) -> None:
        self._settle_timer = None
        self._committed_end = self._read_committed_end()
        self._work.put(_SETTLE)

    def close(self) -> None:
        """End the thread after the flush that is in progress."""
        if self._settle_timer is not None:
            self._settle_timer.cancel()
        self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            started = time.perf_counter()
            if work >= 0:
                self._codes.put(_sync(work))
                ended: Callable[[float], None] = self._sync_ended
            elif (result := self._whole(work)) is not None:
                ended = partial(self._finished, result)
            else:
                continue
            seconds = time.perf_counter() - started
            if not call_on_loop(self._loop, ended, seconds):
                return

    def _whole(self, work: int) -> int | StorageFailure | DiskFull | None:
        """Runs on the thread. None: no result is expected."""
        try:
            if work == _FLUSH:
                return self._log.flush()
            self._log.settle(self._committed_end)
        except (StorageFailure, DiskFull) as failure:
            return failure
        return None

    def _sync_ended(self, seconds: float) -> None:
        result: int | StorageFailure | DiskFull
        try:
            result = self._log.end_sync()
        except (StorageFailure, DiskFull) as failure:
            result = failure
        self._finished(result, seconds)

    def _finished(self, result: int | StorageFailure | DiskFull, seconds: float) -> None:
        self.busy_since = None
        if isinstance(result, int):  # no sync is retried after one that failed
            self.settle_soon()
        self._metrics.count("flushes")
        self._metrics.observe("flush_latency_seconds", seconds)
        self._done(self._ticket, result)


def _sync(fd: int) -> int:
    """errno of an fdatasync, 0 if it succeeded."""
    try:
        os.fdatasync(fd)
    except OSError as error:
        return error.errno or errno.EIO
    return 0
