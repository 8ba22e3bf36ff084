"""Opens the logs of replicas on threads of their directories.

Owns which logs are being opened. A log of the same topic name and partition must not be opened or created meanwhile: both have the same path.
A replica that is stopped while its log is being opened has to be deleted afterwards, as if it had been stopped a moment later.

What `LogDirectory.open_log` syncs when it creates a log has to be durable before the log is used:
* partition.metadata before its rename. After a loss of power a damaged one would take the directory offline.
* The directory of the log, so that this file and the first segment exist. A log without a topic id is set aside at the start.
* The directory of all logs. Otherwise a recovery point could be durable, and the log not: the next start would begin an empty log.
A stock broker syncs partition.metadata on a thread or at the first append, and the directory of the log with the first flush of a segment.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from quorum_node.image.topics import PartitionKey
from quorum_node.server.broker.data_log import DataDirectory, DataLog
from quorum_node.server.broker.directory_threads import DirectoryThreads, Failure
from quorum_node.storage.broker.log_settings import LogSettings


@dataclass(slots=True)
class Opening:
    """A log that is being opened. `is_stopped`: the metadata does not assign the replica to this broker any more."""

    key: PartitionKey
    topic_name: str
    directory_id: UUID
    is_stopped: bool = False

    def stop(self) -> None:
        """See `LogOpenings.stop`."""
        self.is_stopped = True


class LogOpenings:
    """`ended`: called with the log, or with the failure that took its directory offline."""

    def __init__(
        self, threads: DirectoryThreads, ended: Callable[[Opening, DataLog | Failure], None]
    ) -> None:
        self._threads = threads
        self._ended = ended
        self._running: dict[tuple[str, int], Opening] = {}

    def __len__(self) -> int:
        return len(self._running)

    def begin(
        self,
        directory: DataDirectory,
        key: PartitionKey,
        topic_name: str,
        settings: LogSettings,
        *,
        exists: bool,
    ) -> None:
        """Open or create a log in this directory. None of the replica is being opened or deleted. `exists`: it is likely to exist."""
        opening = Opening(key, topic_name, directory.directory_id)
        self._running[topic_name, key.partition_id] = opening
        work = partial(directory.open, topic_name, key.topic_id, key.partition_id, settings)
        ended = partial(self._opened, opening)
        self._threads.run(directory.directory_id, work, ended, computes=exists)

    def is_running(self, topic_name: str, partition_id: int) -> bool:
        """Whether a log of this name is being opened."""
        return (topic_name, partition_id) in self._running

    def stop(self, key: PartitionKey, topic_name: str) -> None:
        """The replica is stopped: its log has to be deleted when it is open."""
        opening = self._running.get((topic_name, key.partition_id))
        if opening is not None and opening.key == key:
            opening.stop()

    def _opened(self, opening: Opening, result: DataLog | Failure) -> None:
        del self._running[opening.topic_name, opening.key.partition_id]
        self._ended(opening, result)
