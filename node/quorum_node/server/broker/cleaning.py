"""Schedules compaction: one round every log.cleaner.backoff.ms, on a dedicated thread.

Owns the thread and the pauses. The storage decides which logs are compacted, and how. A full disk ends only the round, because
compaction does not acknowledge records to clients. Source: Kafka's documentation, "Broker Configs", log.cleaner.*.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from quorum_node.server.broker.data_directories import DataDirectories
from quorum_node.server.broker.data_log import Compacted
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.topic_values import CleanerValues
from quorum_node.storage.errors import DiskFull

HighWatermarks = Mapping[tuple[str, int], int]
"""The high watermark of each log that may be compacted, by topic and partition. A look-up, on any thread, gives the present one."""


class Cleaning:
    """Starts compaction rounds. `start_if_due` has to be called often, on the loop's thread."""

    def __init__(self, directories: DataDirectories, events: BrokerEvents) -> None:
        self._directories = directories
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._ended_at = self._loop.time()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cleaner")
        self._round: asyncio.Future[None] | None = None
        self._closed = False

    def start_if_due(self, values: CleanerValues, logs: Callable[[], HighWatermarks]) -> None:
        """Start a round if one is due. `logs`: returns the logs that may be compacted now, with their high watermarks."""
        is_due = self._loop.time() - self._ended_at >= values.backoff_ms / 1000
        if not values.is_enabled or not is_due or self._round is not None or self._closed:
            return
        found = logs()
        if not found:
            self._ended_at = self._loop.time()
            return
        self._round = self._loop.run_in_executor(
            self._thread, self._directories.compact, found, values.limits, self._report
        )
        self._round.add_done_callback(self._ended)

    def close(self) -> None:
        """Start no more rounds; a round that is running ends when the directory is closed."""
        self._closed = True
        self._thread.shutdown(wait=False)

    def _report(self, outcome: Compacted) -> None:
        name = f"{outcome.topic_name}-{outcome.partition_id}"
        if outcome.refusal is not None:
            self._events.not_compacted(name, outcome.refusal)
        else:
            self._events.compacted(name, outcome.end_offset, outcome.before_bytes, outcome.after_bytes)  # fmt: skip

    def _ended(self, done: "asyncio.Future[None]") -> None:
        self._round, self._ended_at = None, self._loop.time()
        failure = None if done.cancelled() else done.exception()
        if self._closed or failure is None:
            return
        if isinstance(failure, DiskFull):
            self._events.no_room_to_compact(str(failure))
        else:
            raise failure
