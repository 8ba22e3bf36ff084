"""What is done with the replicas of a broker from time to time: timeouts, retention, checkpoints, syncs, compaction.

Owns the intervals. What goes over all replicas is done in turns of the loop, a short part of it in each, and what waits for a disk on threads.
The replicas are those of `AssignedReplicas`, which adds and removes them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from quorum_node.image.topics import PartitionKey
from quorum_node.server.broker.cleaning import Cleaning, HighWatermarks
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.directory_threads import TURN_SECONDS, DirectoryThreads
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.log_syncs import LogSyncs
from quorum_node.server.broker.topic_values import CleanerValues
from quorum_node.server.pieces import is_done
from quorum_node.storage.broker.time_of_day import time_of_day_ms

_TICK_SECONDS = 0.1
"""Interval between checks of replicas whose requests wait for replication, in seconds. Every replica is checked once in `_LAG_SHARE` of
replica.lag.time.max.ms.
"""
_LAG_SHARE = 0.25
_CHECKPOINT_SECONDS = 5.0
_MAINTENANCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Intervals:
    """`lag_time_max_ms`: replica.lag.time.max.ms. The others are intervals of checks: of retention, of producers that expire, of flush.ms."""

    lag_time_max_ms: int
    retention_ms: int
    producers_ms: int
    syncs_ms: int


class _Round:
    """An action on every replica, every `seconds`. `begun_at`: when the previous round began, on the loop's clock."""

    def __init__(
        self, seconds: float, begun_at: float, action: Callable[[HostedReplica], None]
    ) -> None:
        self._seconds = seconds
        self._begun_at = begun_at
        self._action = action
        self._rest: Iterator[None] | None = None

    def run_if_due(self, now: float, replicas: Mapping[PartitionKey, HostedReplica]) -> None:
        """Begin a round if it is due, and go on with it for a turn. A replica that is removed meanwhile is left out."""
        if self._rest is None and now - self._begun_at >= self._seconds:
            self._begun_at, self._rest = now, self._each(replicas)
        if self._rest is not None and is_done(self._rest, TURN_SECONDS):
            self._rest = None

    def _each(self, replicas: Mapping[PartitionKey, HostedReplica]) -> Iterator[None]:
        for key, replica in tuple(replicas.items()):
            if replicas.get(key) is replica:
                self._action(replica)
                yield


class _PresentHighWatermarks(Mapping[tuple[str, int], int]):
    """Of the logs that are to be compacted now. They may change later: a round of compaction may take hours, and the log may be truncated
    meanwhile, or its topic created again. Uncommitted records would be taken for committed ones with the high watermark of the beginning.
    """

    def __init__(self, replicas: Mapping[PartitionKey, HostedReplica]) -> None:
        self._replicas = replicas
        self._keys = {
            (each.topic_name, each.key.partition_id): each.key
            for each in replicas.values()
            if each.log.settings.compacts
        }

    def __getitem__(self, replica: tuple[str, int]) -> int:
        """0 if the replica was removed meanwhile: nothing of its log is compacted."""
        found = self._replicas.get(self._keys[replica])
        return 0 if found is None else found.core.high_watermark

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class ReplicaTimers:
    """Created in the loop. `replicas`: the present ones, whenever it is read."""

    def __init__(
        self,
        replicas: Mapping[PartitionKey, HostedReplica],
        directories: DataDirectories,
        threads: DirectoryThreads,
        cleaner: CleanerValues,
        intervals: Intervals,
        events: BrokerEvents,
    ) -> None:
        self._replicas = replicas
        self._directories = directories
        self._threads = threads
        self._cleaner = cleaner
        self._loop = asyncio.get_running_loop()
        now = self._checkpointed_at = self._maintained_at = self._loop.time()
        lag_seconds = intervals.lag_time_max_ms * _LAG_SHARE / 1000
        self._rounds = (
            _Round(max(_TICK_SECONDS, lag_seconds), now, HostedReplica.tick),
            _Round(intervals.retention_ms / 1000, now, _retain),
            _Round(intervals.producers_ms / 1000, now, _forget_producers),
        )
        self._checkpointing: set[UUID] = set()
        self._maintenance: asyncio.Future[None] | None = None
        self._cleaning = Cleaning(directories, events)
        self.syncs = LogSyncs(intervals.syncs_ms)
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """The replicas are complete, or will be added."""
        self._tick()

    def configure(self, cleaner: CleanerValues) -> None:
        """Apply changed settings of the compaction."""
        self._cleaner = cleaner

    def maintain_soon(self) -> None:
        """Store the start offsets with the next tick."""
        self._maintained_at = float("-inf")

    def stop(self) -> None:
        """Begin nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._cleaning.close()
        self.syncs.close()

    def checkpoint_last(self) -> None:
        """Store all high watermarks now: the process is about to end."""
        self._keep_high_watermarks()
        self._directories.checkpoint()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)
        now = self._loop.time()
        for replica in self._replicas.values():
            if replica.has_waiting_producers:
                replica.tick()
        for each in self._rounds:
            each.run_if_due(now, self._replicas)
        if now - self._checkpointed_at >= _CHECKPOINT_SECONDS:
            self._checkpointed_at = now
            self._checkpoint()
        self._cleaning.start_if_due(self._cleaner, self._compacting)
        self.syncs.sync_if_due(self._replicas.values())
        if now - self._maintained_at >= _MAINTENANCE_SECONDS and self._maintenance is None:
            self._maintained_at = now
            self._maintenance = self._loop.run_in_executor(None, self._directories.maintain)
            self._maintenance.add_done_callback(self._maintained)

    def _checkpoint(self) -> None:
        """One at a time in each directory, as a slow disk may need longer than the interval. A failure takes the directory offline."""
        self._keep_high_watermarks()
        for directory in self._directories.online:
            key = directory.directory_id
            if key not in self._checkpointing:
                self._checkpointing.add(key)
                self._threads.run(key, directory.checkpoint, partial(self._checkpointed, key))

    def _checkpointed(self, directory_id: UUID, _: object) -> None:
        self._checkpointing.discard(directory_id)

    def _keep_high_watermarks(self) -> None:
        for each in self._replicas.values():
            each.log.keep_high_watermark(each.core.high_watermark)

    def _compacting(self) -> HighWatermarks:
        return _PresentHighWatermarks(self._replicas)

    def _maintained(self, done: "asyncio.Future[None]") -> None:
        self._maintenance = None
        self.syncs.all_synced()
        failure = done.exception()
        if failure is not None and not self._closed:
            raise failure


def _retain(replica: HostedReplica) -> None:
    """Delete old segments of leaders and followers, by the clock of this broker. Uncommitted records are never deleted."""
    replica.retain(time_of_day_ms())


def _forget_producers(replica: HostedReplica) -> None:
    """Expire producers. Otherwise, each producer that ever wrote would stay in memory and in every snapshot."""
    replica.forget_producers(time_of_day_ms())
