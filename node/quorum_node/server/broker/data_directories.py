"""All directories in log.dirs: which are online, and what happens when one fails (KIP-112, KIP-858).

A failed directory is taken offline for the rest of the process, and is recorded so that no later process uses it under its directory id.
The others go on. Without any directory left the process ends. Owns these rules. Must not know replicas, which the listeners of `watch`
take offline.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol
from uuid import UUID

from quorum_node.configuration.broker_config import ALL_DIRECTORIES
from quorum_node.server.broker.data_log import (
    Compacted,
    CompactionLimits,
    DataDirectory,
)
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure

_NO_EPOCH = -1


class DirectoryRecord(Protocol):
    """Where the failure of a directory is recorded, on other disks and on its own."""

    def failed(self, directory: DataDirectory, failure: StorageFailure) -> None:
        """Record it. Raises StorageFailure or DiskFull if the directory of the metadata log can't be written."""


class NoRecord:
    """For directories whose failure ends the process: the failure latch of the process is set then."""

    def failed(self, directory: DataDirectory, failure: StorageFailure) -> None:
        """See `DirectoryRecord`."""


class DataDirectories:
    """Created in the loop. `offline`: path → reason of directories that could not be opened.

    `ended`: called when the last directory, or the record of failures, has failed: the process has to end.
    """

    def __init__(
        self,
        opened: Sequence[DataDirectory],
        events: BrokerEvents,
        ended: Callable[[StorageFailure | DiskFull], None],
        offline: Mapping[str, str] | None = None,
        record: DirectoryRecord | None = None,
    ) -> None:
        assert opened, "the process ends without a directory"
        self._opened = tuple(opened)
        self._not_opened = dict(offline or {})
        self._events = events
        self._ended = ended
        self._record = record or NoRecord()
        self._watchers: list[Callable[[UUID], None]] = []
        self._closed = False
        self._loop = asyncio.get_running_loop()
        for each in self._opened:
            each.watch(partial(self._failed_soon, each))

    # -- queries

    @property
    def online(self) -> tuple[DataDirectory, ...]:
        """The directories that have not failed."""
        return tuple(each for each in self._opened if each.failure is None)

    @property
    def online_ids(self) -> tuple[UUID, ...]:
        """Their ids, for the registration."""
        return tuple(each.directory_id for each in self.online)

    @property
    def failed_ids(self) -> tuple[UUID, ...]:
        """Ids of directories that failed in this process, for heartbeats."""
        return tuple(each.directory_id for each in self._opened if each.failure is not None)

    @property
    def offline(self) -> dict[str, str]:
        """Path → reason of all directories that are offline."""
        failed = {each.path: str(each.failure) for each in self._opened if each.failure is not None}
        return {**self._not_opened, **failed}

    @property
    def previous_broker_epoch(self) -> int:
        """The epoch of the previous run if it closed every directory cleanly, else -1, as a stock broker determines it.

        Without the check of all directories, a replica that lost records with its directory would count as complete.
        """
        epochs = {each.previous_broker_epoch for each in self._opened}
        return _NO_EPOCH if self._not_opened or len(epochs) > 1 else epochs.pop()

    def cordoned_ids(self, paths: Collection[str]) -> tuple[UUID, ...]:
        """Ids of the online directories that `cordoned.log.dirs` names."""
        is_all = ALL_DIRECTORIES in paths
        return tuple(each.directory_id for each in self.online if is_all or each.path in paths)

    def get(self, directory_id: UUID | None) -> DataDirectory | None:
        """The directory if it is online."""
        return next((each for each in self.online if each.directory_id == directory_id), None)

    def at(self, path: str) -> DataDirectory | None:
        """The directory with this path if it is online."""
        return next((each for each in self.online if each.path == path), None)

    def watch(self, failed: Callable[[UUID], None]) -> None:
        """Call `failed` with the id of each directory that fails while others are online. On the loop's thread."""
        self._watchers.append(failed)

    # -- operations on all directories

    def checkpoint(self) -> None:
        """See `DataDirectory`. A directory that fails is taken offline."""
        self._each(lambda each: each.checkpoint())

    def maintain(self) -> None:
        """See `DataDirectory`. A directory that fails is taken offline."""
        self._each(lambda each: each.maintain())

    def compact(
        self,
        high_watermarks: Mapping[tuple[str, int], int],
        limits: CompactionLimits,
        report: Callable[[Compacted], None],
    ) -> None:
        """See `DataDirectory`. Raises DiskFull after all directories were compacted."""
        full: DiskFull | None = None
        for each in self.online:
            try:
                each.compact(high_watermarks, limits, report)
            except StorageFailure:
                continue  # the directory is offline now
            except DiskFull as error:
                full = error
        if full is not None:
            raise full

    def close(self, broker_epoch: int | None) -> None:
        """Close all directories. Raises the failure of a directory if none could be closed without one."""
        self._closed = True
        for each in self._opened:
            before = each.failure
            try:
                each.close(broker_epoch)
            except (StorageFailure, DiskFull) as failure:
                if before is None:
                    self._note(each, failure)
        reason = self._opened[0].failure
        if reason is not None and not self.online:
            raise reason

    # -- failure

    def _each(self, action: Callable[[DataDirectory], None]) -> None:
        for each in self.online:
            try:
                action(each)
            except (StorageFailure, DiskFull):
                assert each.failure is not None, "its failure is reported by the directory"

    def _failed_soon(self, directory: DataDirectory, failure: StorageFailure | DiskFull) -> None:
        """On any thread, possibly within a step of a replica."""
        self._loop.call_soon_threadsafe(self._failed, directory, failure)

    def _failed(self, directory: DataDirectory, failure: StorageFailure | DiskFull) -> None:
        if self._closed:
            return
        # Without descriptors or memory no directory works, and this one has not failed: the process ends.
        if not self.online or isinstance(failure, OutOfResources):
            self._ended(failure)
            return
        try:
            self._note(directory, failure)
        except (StorageFailure, DiskFull) as second:
            self._ended(second)
            return
        for failed in tuple(self._watchers):
            failed(directory.directory_id)

    def _note(self, directory: DataDirectory, failure: StorageFailure | DiskFull) -> None:
        self._events.directory_failed(directory.path, str(failure), len(self.online))
        # The next process uses a full disk, and one that was only out of descriptors. It counts what was not synced as lost.
        if isinstance(failure, StorageFailure) and not isinstance(failure, OutOfResources):
            self._record.failed(directory, failure)
