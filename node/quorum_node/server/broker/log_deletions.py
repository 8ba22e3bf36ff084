"""Deletes logs on another thread: the deletion waits for a sync of the log that is running, and syncs files itself.

Owns which deletions are running. A log of the same topic name and partition must not be created until then: both have the same path.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.storage.errors import DiskFull, StorageFailure


class LogDeletions:
    """`ended`: called with topic name and partition when nothing of the replica is being deleted any more."""

    def __init__(self, ended: Callable[[str, int], None]) -> None:
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._running: dict[tuple[str, int], int] = {}
        self._closed = False

    def delete(
        self, directory: DataDirectory, topic_name: str, partition_id: int
    ) -> "asyncio.Future[None]":
        """Delete a log in this directory. The result has no exception of a disk: the directory is offline then."""
        replica = (topic_name, partition_id)
        self._running[replica] = self._running.get(replica, 0) + 1
        done = self._loop.run_in_executor(None, _delete, directory, topic_name, partition_id)
        done.add_done_callback(partial(self._done, replica))
        return done

    def is_running(self, topic_name: str, partition_id: int) -> bool:
        """Whether a log of this replica is being deleted."""
        return (topic_name, partition_id) in self._running

    def close(self) -> None:
        """Report no more ends."""
        self._closed = True

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
