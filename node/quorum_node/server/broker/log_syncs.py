"""Syncs logs by `flush.messages` and `flush.ms`, in addition to the sync of all logs once a minute.

Owns the threads, one sync of a log at a time, and when `flush.ms` is over. A replica decides when `flush.messages` is reached: its batches
count as written when they are synced. `flush.ms` is checked every `log.flush.scheduler.interval.ms`, as in a stock broker. A failed sync
takes the directory of the log offline; it is never repeated.
Source: Kafka's documentation, "Topic Configs" and "Broker Configs".
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from quorum_node.image.topics import PartitionKey
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.storage.errors import DiskFull, StorageFailure

_THREADS = 8
"""Syncs that run at the same time. They have threads of their own: a slow disk must not delay other work."""


class LogSyncs:
    """`check_ms`: interval of the check of `flush.ms`."""

    def __init__(self, check_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._check_seconds = check_ms / 1000
        self._checked_at = self._loop.time()
        self._synced_at: dict[PartitionKey, float] = {}
        """End of the last sync, or when the log was opened."""
        self._running: set[HostedReplica] = set()
        self._again: set[HostedReplica] = set()
        """Running ones that another sync follows."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._closed = False

    def opened(self, key: PartitionKey) -> None:
        """The log of a replica was opened: `flush.ms` begins."""
        self._synced_at[key] = self._loop.time()

    def forget(self, key: PartitionKey) -> None:
        """The replica was removed."""
        self._synced_at.pop(key, None)

    def sync(self, replica: HostedReplica, *, again: bool = False) -> None:
        """Sync the log of a replica, which gets the end, unless a sync of it is running. `again`: then after that one."""
        if self._closed:
            return
        if replica in self._running:
            if again:
                self._again.add(replica)
            return
        self._running.add(replica)
        done = self._loop.run_in_executor(self._threads, replica.log.sync)
        done.add_done_callback(partial(self._ended, replica))

    def sync_if_due(self, replicas: Iterable[HostedReplica]) -> None:
        """Sync the logs whose `flush.ms` is over, if a check is due. Has to be called often."""
        now = self._loop.time()
        if now - self._checked_at < self._check_seconds:
            return
        self._checked_at = now
        before, self._synced_at = self._synced_at, {}
        for replica in replicas:
            synced_at = self._synced_at[replica.key] = before.get(replica.key, now)
            is_over = (now - synced_at) * 1000 >= replica.log.settings.flush_ms
            if is_over and replica.has_unsynced_records:
                self.sync(replica)

    def all_synced(self) -> None:
        """All logs were synced."""
        self._synced_at = dict.fromkeys(self._synced_at, self._loop.time())

    def close(self) -> None:
        """Start no more syncs. One that is running ends when the directory is closed."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ended(self, replica: HostedReplica, done: "asyncio.Future[None]") -> None:
        is_wanted_again = replica in self._again
        self._running.discard(replica)
        self._again.discard(replica)
        if self._closed or done.cancelled():
            return
        failure = done.exception()
        if failure is None:
            self._synced_at[replica.key] = self._loop.time()
            replica.synced()
            if is_wanted_again and replica.has_unsynced_records:
                self.sync(replica)
        elif not isinstance(failure, StorageFailure | DiskFull):
            raise failure
