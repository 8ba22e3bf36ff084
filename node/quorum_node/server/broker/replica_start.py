"""The start of a broker's replicas: finds the logs on the disks, sets aside those that are not its own, and waits until all others are open.

Owns the order of these steps, and the report of the progress. Everything that waits for the disk runs on threads of the directories, so that
heartbeats and requests to this process are served meanwhile: after a crash, each log is checked from its recovery point on. The broker stays
fenced, and its listeners closed, until all logs are open, as a stock one whose `LogManager` loads logs.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from uuid import UUID

from quorum_node.broker.assignments import FoundLog, strays
from quorum_node.broker.placement import (
    AmbiguousReplica,
    possibly_superseded,
    superseded_logs,
)
from quorum_node.image.topics import TopicsImage
from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.directory_threads import DirectoryThreads, Failure
from quorum_node.server.broker.events import BrokerEvents

_PROGRESS_SECONDS = 5.0
"""Interval of the reports of the progress."""

Found = Mapping[tuple[str, int], UUID]
"""(topic name, partition) → directory that has its log."""
StartEnded = Callable[[AmbiguousReplica | None], None]
"""Called once when all logs are open, or with the reason why nothing was done."""


class ReplicaStart:
    """`open_all`: called once, when nothing but the own logs is left; begins to open them.

    `counts`: returns the numbers of logs that are open, and that are being opened.
    """

    def __init__(
        self,
        broker_id: int,
        directories: DataDirectories,
        threads: DirectoryThreads,
        events: BrokerEvents,
        open_all: Callable[[Found], None],
        counts: Callable[[], tuple[int, int]],
        ended: StartEnded,
    ) -> None:
        self._broker_id = broker_id
        self._directories = directories
        self._threads = threads
        self._events = events
        self._open_all = open_all
        self._counts = counts
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._begun_at = self._loop.time()
        self._waits_for = 0
        self._found: list[FoundLog] = []
        self._strays = 0
        self._is_opening = False
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, topics: TopicsImage) -> None:
        """Begin with the first step. `topics`: of the first image."""
        online = self._directories.online
        self._waits_for = len(online)
        self._timer = self._loop.call_later(_PROGRESS_SECONDS, self._report)
        for each in online:
            self._threads.run(each.directory_id, each.found, partial(self._note_found, topics))

    def close(self) -> None:
        """Report nothing more."""
        self._is_opening = False
        if self._timer is not None:
            self._timer.cancel()

    def openings_changed(self) -> None:
        """Some logs were opened, or could not be opened."""
        is_open, opening = self._counts()
        if self._is_opening and not opening:
            self.close()
            self._events.opened(is_open, self._strays, self._loop.time() - self._begun_at)
            self._ended(None)

    def _note_found(self, topics: TopicsImage, found: tuple[FoundLog, ...] | Failure) -> None:
        self._waits_for -= 1
        if isinstance(found, tuple):
            self._found.extend(found)
        if not self._waits_for:
            self._sort_out(topics)

    def _sort_out(self, topics: TopicsImage) -> None:
        """Set aside the logs that are not assigned to this broker, and old copies. Others of the same name may follow them."""
        foreign = strays(self._broker_id, self._found, topics)
        own = list(set(self._found).difference(foreign))
        try:
            old = superseded_logs(self._broker_id, own, topics)
        except AmbiguousReplica as error:
            self.close()
            self._ended(error)
            return
        unknown = possibly_superseded(
            own, self._directories.online_ids, has_offline=bool(self._directories.offline)
        )
        found = {
            (each.topic_name, each.partition_id): each.directory_id
            for each in set(own).difference(old, unknown)
            if each.directory_id is not None
        }
        self._waits_for = 1  # for the end of this method
        for each in foreign:
            self._set_aside(each, found, lambda name, path: self._events.set_aside(name))
        for each in old:
            self._set_aside(each, found, self._events.duplicate_set_aside)
        self._one_ended(found)

    def _set_aside(self, log: FoundLog, found: Found, report: Callable[[str, str], None]) -> None:
        """Unless its directory has failed. `report`: called afterwards with the name of the log, and the path of its directory."""
        directory = self._directories.get(log.directory_id)
        if directory is not None:
            self._waits_for += 1
            report_it = partial(report, f"{log.topic_name}-{log.partition_id}", directory.path)
            work = partial(directory.set_aside, log)
            self._threads.run(
                directory.directory_id, work, partial(self._is_aside, found, report_it)
            )

    def _is_aside(self, found: Found, report: Callable[[], None], result: Failure | None) -> None:
        """A failure has taken its directory offline."""
        if result is None:
            self._strays += 1
            report()
        self._one_ended(found)

    def _one_ended(self, found: Found) -> None:
        self._waits_for -= 1
        if not self._waits_for:
            self._open(found)

    def _open(self, found: Found) -> None:
        self._is_opening = True
        self._open_all(found)
        self.openings_changed()

    def _report(self) -> None:
        self._timer = self._loop.call_later(_PROGRESS_SECONDS, self._report)
        seconds = self._loop.time() - self._begun_at
        if self._is_opening:
            is_open, opening = self._counts()
            self._events.opening(is_open, is_open + opening, seconds)
        else:
            self._events.searching_logs(seconds)
