"""Deletes logs on another thread: the deletion waits for a sync of the log that is running, and syncs files itself.

Owns which deletions are running, and their threads: thousands of deletions must not delay other work that the loop gives to threads. A log
of the same topic name and partition must not be created until then: both have the same path.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.storage.errors import DiskFull, StorageFailure

THREADS = 8
"""Deletions that wait for the same disk at once share its syncs."""


class LogDeletions:
    """`ended`: called with topic name and partition when nothing of the replica is being deleted any more."""

    def __init__(self, ended: Callable[[str, int], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="deletions")
        self._running: dict[tuple[str, int], int] = {}
        self._closed = False

    def delete(
        self, directory: DataDirectory, topic_name: str, partition_id: int
    ) -> "asyncio.Future[None]":
        """Delete a log in this directory. The result has no exception of a disk: the directory is offline then."""
        replica = (topic_name, partition_id)
        self._running[replica] = self._running.get(replica, 0) + 1
        work = partial(_delete, directory, topic_name, partition_id)
        done = self._loop.run_in_executor(self._threads, work)
        done.add_done_callback(partial(self._done, replica))
        return done

    def is_running(self, topic_name: str, partition_id: int) -> bool:
        """Whether a log of this replica is being deleted."""
        return (topic_name, partition_id) in self._running

    def close(self) -> None:
        """Report no more ends, and begin no more deletions. The next start sets aside the logs that are left."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, replica: tuple[str, int], done: "asyncio.Future[None]") -> None:
        left = self._running.pop(replica) - 1
        if left:
            self._running[replica] = left
        if self._closed or done.cancelled():
            return
        failure = done.exception()
        if failure is not None:
            raise failure
        if not left:
            self._ended(*replica)


def _delete(directory: DataDirectory, topic_name: str, partition_id: int) -> None:
    try:
        directory.delete(topic_name, partition_id)
    except (StorageFailure, DiskFull):
        assert directory.failure is not None, "the directory has reported it"
