"""Threads that wait for the disks of the log directories, so that the loop does not.

Owns a pool of threads for each directory: a slow disk does not delay work on another one. The results are taken in turns of the loop.

The file system writes its journal once for all syncs that wait at the same time. So `THREADS` syncs at once take hardly longer than
a single one: with a disk that needs 16 ms for a sync, 200 logs are created in 0.6 s instead of 16 s. Nothing is less durable than with one thread.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TypeVar
from uuid import UUID

from quorum_node.server.pieces import is_done
from quorum_node.storage.errors import DiskFull, StorageFailure

T = TypeVar("T")
Failure = StorageFailure | DiskFull

THREADS = 8
"""Threads of each directory for work that waits for syncs."""
COMPUTING_THREADS = 4
"""Threads of each directory for work that computes as well, such as the check of a log: more would take turns from the loop."""
TURN_SECONDS = 0.005
"""No further result is taken in a turn of the loop after so long. A single one may take longer."""


class DirectoryThreads:
    """Created in the loop, which calls `done` of each work. `clock`: in seconds."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._turn_ended: Callable[[], None] = lambda: None
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pools: dict[tuple[UUID, int], ThreadPoolExecutor] = {}
        self._ended: SimpleQueue[Callable[[], None]] = SimpleQueue()
        """What the loop has to call, put by the threads."""
        self._is_planned = False
        self._closed = False
        self.unfinished = 0
        """Number of works that were begun, and whose results were not taken yet."""

    def watch(self, turn_ended: Callable[[], None]) -> None:
        """Call `turn_ended` after each turn in which results may have been taken."""
        self._turn_ended = turn_ended

    def run(
        self,
        directory_id: UUID,
        work: Callable[[], T],
        done: Callable[[T | Failure], None],
        *,
        computes: bool = False,
    ) -> None:
        """Begin `work` on a thread of the directory. Then `done` gets its result, or its failure of the disk.

        `computes`: it may need a processor for long.
        """
        if self._closed:
            return
        key = directory_id, COMPUTING_THREADS if computes else THREADS
        pool = self._pools.get(key)
        if pool is None:
            pool = ThreadPoolExecutor(key[1], thread_name_prefix=f"disk-{len(self._pools)}")
            self._pools[key] = pool
        self.unfinished += 1
        pool.submit(self._do, work, done)

    def close(self) -> None:
        """Begin nothing more, and wait for the work that is running. Its results are not taken."""
        self._closed = True
        # First all of them: the wait for one may be long, and the others would begin what waits in them.
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in self._pools.values():
            pool.shutdown()

    def _do(self, work: Callable[[], T], done: Callable[[T | Failure], None]) -> None:
        """On a thread."""
        try:
            ended = partial(done, work())
        except (StorageFailure, DiskFull) as failure:
            ended = partial(done, failure)
        except Exception as error:
            ended = partial(_raise, error)
        self._ended.put(ended)
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._plan)

    def _plan(self) -> None:
        """Take results in the next turn of the loop, only once for all results that are there by then."""
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._take_results)

    def _take_results(self) -> None:
        """One turn of the loop."""
        self._is_planned = False
        if not is_done(self._results(), TURN_SECONDS, self._clock):
            self._plan()
        if not self._closed:
            self._turn_ended()

    def _results(self) -> Iterator[None]:
        """Takes one result after the other."""
        while not self._closed:
            try:
                ended = self._ended.get_nowait()
            except Empty:
                return
            self.unfinished -= 1
            ended()
            yield


def _raise(error: Exception) -> None:
    raise error
