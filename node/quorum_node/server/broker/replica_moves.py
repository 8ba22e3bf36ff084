"""Moves replicas between the directories of log.dirs: AlterReplicaLogDirs (KIP-113).

Owns the order of the moves, one after the other, and their throttle. A replica serves from its log while that is copied. The last records
are copied, and the logs exchanged, within one turn of the loop, in which nothing is appended. A move that fails or is cancelled leaves the
replica where it is; after the end of the process it has to be requested again.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from uuid import UUID

from quorum_node.broker.replication_quota import ReplicationQuota
from quorum_node.image.topics import PartitionKey
from quorum_node.records.batches import CorruptBatch
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.data_log import DataDirectory, LogCopy
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.hosted_replica import HostedReplica
from quorum_node.server.broker.log_deletions import LogDeletions
from quorum_node.server.ending.fail_stop import watch_task
from quorum_node.storage.errors import DiskFull, StorageFailure

_T = TypeVar("_T")
_PAUSE_SECONDS = 0.1
_LAST_BYTES = 1 << 20
"""If about so much is left, what is copied is made durable, and the exchange of the logs is tried."""
_LAST_PIECES = 16
"""At most this many pieces, 4 MiB, are copied in the turn of the loop in which the logs are exchanged. More than `_LAST_BYTES`, as producers
write on until then, during the syncs of the copy and of the mark: a log that is written faster would never be moved.
"""


@dataclass(frozen=True, slots=True)
class Move:
    """A move in progress or waiting. `size_bytes` of `lag` offsets less than the log are copied."""

    replica: HostedReplica
    directory_id: UUID
    size_bytes: int
    lag: int


class ReplicaMoves:
    """`replica_of`: the present replica of a key, None if there is none. `moved`: called after the exchange of the logs, with the
    directory in which the replica was."""

    def __init__(
        self,
        directories: DataDirectories,
        replica_of: Callable[[PartitionKey], HostedReplica | None],
        moved: Callable[[HostedReplica, UUID], None],
        deletions: LogDeletions,
        events: BrokerEvents,
    ) -> None:
        self._directories = directories
        self._replica_of = replica_of
        self._moved = moved
        self._deletions = deletions
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._targets: dict[PartitionKey, UUID] = {}
        self._copies: dict[PartitionKey, LogCopy] = {}
        self._quota = ReplicationQuota()
        self._task: asyncio.Task[None] | None = None

    def limit(self, bytes_per_second: float | None) -> None:
        """Apply `replica.alter.log.dirs.io.max.bytes.per.second`; None: no limit."""
        self._quota.limit(bytes_per_second)

    def request(self, replica: HostedReplica, directory_id: UUID) -> None:
        """Move a replica to this directory, which is online. Its present directory cancels an earlier request."""
        self._targets.pop(replica.key, None)
        if replica.directory_id == directory_id:
            return
        self._targets[replica.key] = directory_id
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())
            watch_task(self._task)

    def __iter__(self) -> Iterator[Move]:
        """All moves that are not done."""
        for key, directory_id in self._targets.items():
            replica, copy = self._replica_of(key), self._copies.get(key)
            if replica is not None:
                size_bytes = 0 if copy is None else copy.size_bytes
                copied = replica.core.start_offset if copy is None else copy.end_offset
                lag = max(0, replica.core.end_offset - copied)
                yield Move(replica, directory_id, size_bytes, lag)

    def close(self) -> None:
        """Stop. Unfinished copies are removed by the next start."""
        self._targets.clear()
        if self._task is not None:
            self._task.cancel()

    # -- one move after the other

    async def _run(self) -> None:
        while self._targets:
            key, target = next(iter(self._targets.items()))
            replica, directory = self._replica_of(key), self._directories.get(target)
            is_done = (
                replica is None or directory is None or not await self._move(replica, directory)
            )
            if is_done and self._targets.get(key) == target:
                del self._targets[key]

    async def _move(self, replica: HostedReplica, directory: DataDirectory) -> bool:
        """Returns False when there is nothing left to do for this request."""
        name = f"{replica.topic_name}-{replica.key.partition_id}"
        topic_id, number = replica.key.topic_id, replica.key.partition_id
        try:
            begin = partial(directory.copy, replica.topic_name, topic_id, number, replica.log)
            copy = await self._in_thread(begin)
        except (StorageFailure, DiskFull) as error:
            self._events.not_moved(name, directory.path, str(error))
            return False
        self._copies[replica.key] = copy
        try:
            while self._is_wanted(replica, directory) and not copy.is_void:
                if await self._advance(replica, copy) and await self._exchange(
                    replica, copy, directory
                ):
                    return False
        except (StorageFailure, DiskFull, CorruptBatch) as error:
            self._drop(copy)
            if copy.is_void and isinstance(error, CorruptBatch):
                # The log was truncated while a thread read what is gone: copy it again.
                return self._is_wanted(replica, directory)
            self._events.not_moved(name, directory.path, str(error))
            return False
        finally:
            del self._copies[replica.key]
        self._drop(copy)
        return self._is_wanted(replica, directory)

    def _is_wanted(self, replica: HostedReplica, directory: DataDirectory) -> bool:
        is_current = self._replica_of(replica.key) is replica and not replica.has_failed
        is_target = self._targets.get(replica.key) == directory.directory_id
        return is_current and is_target and directory.failure is None

    async def _advance(self, replica: HostedReplica, copy: LogCopy) -> bool:
        """Copy a piece. True if hardly anything is left, and what is copied is durable."""
        if self._is_throttled():
            await asyncio.sleep(_PAUSE_SECONDS)
            return False
        copied = await self._in_thread(partial(copy.advance, replica.core.written_offset))
        self._quota.record(copied, self._loop.time() * 1000)
        is_far = copied > 0 and replica.log.bytes_from(copy.end_offset) > _LAST_BYTES
        if is_far or self._is_throttled():
            return False
        await self._in_thread(copy.flush)
        return True

    def _is_throttled(self) -> bool:
        return self._quota.is_exceeded(self._loop.time() * 1000)

    async def _exchange(
        self, replica: HostedReplica, copy: LogCopy, directory: DataDirectory
    ) -> bool:
        """Put the copy in the place of the log, which is deleted then; False as from `_finish`.

        A mark beside the log says which of the two is current if the process dies before the log is gone: only the copy gets records then.
        """
        before = self._directories.get(replica.directory_id)
        if before is None:
            return False
        mark = partial(before.mark_move, replica.topic_name, replica.key.partition_id)
        await self._in_thread(partial(mark, directory.directory_id))
        is_done = False
        try:
            is_done = self._finish(replica, copy, directory)
        finally:
            if not is_done:
                await self._in_thread(partial(mark, None))
        if is_done and await self._is_stored(directory):
            await self._deletions.delete(before, replica.topic_name, replica.key.partition_id)
        return is_done

    async def _is_stored(self, directory: DataDirectory) -> bool:
        """Whether the high watermark of the copy is in the checkpoint, so that the log is not needed any more. Otherwise its directory has
        failed, and the next start finds the mark beside the log.
        """
        try:
            await self._in_thread(directory.checkpoint)
        except (StorageFailure, DiskFull):
            return False
        return True

    def _finish(self, replica: HostedReplica, copy: LogCopy, directory: DataDirectory) -> bool:
        """Copy the rest and exchange the logs; False if too much was written meanwhile, or the move is not wanted any more."""
        if not self._is_wanted(replica, directory) or copy.is_void:
            return False
        # Also what waits for a sync of the present log: the copy is synced before it takes its place.
        for _ in range(_LAST_PIECES):
            if not copy.advance(replica.core.end_offset):
                break
        else:
            return False
        copy.promote()
        name, number, key = replica.topic_name, replica.key.partition_id, replica.key
        log = directory.open(name, key.topic_id, number, replica.log.settings)
        log.save_epochs(replica.core.epoch_starts)  # also of a leader epoch without records
        log.write_epochs()
        log.keep_high_watermark(replica.core.high_watermark)
        before = replica.directory_id
        replica.moved_to(directory.directory_id, log)
        self._targets.pop(key, None)
        self._moved(replica, before)
        self._events.moved(f"{name}-{number}", directory.path)
        return True

    def _drop(self, copy: LogCopy) -> None:
        try:
            copy.drop()
        except (StorageFailure, DiskFull):
            """Its directory is offline; or the copy is removed by the next start."""

    async def _in_thread(self, action: Callable[[], _T]) -> _T:
        return await self._loop.run_in_executor(None, action)
