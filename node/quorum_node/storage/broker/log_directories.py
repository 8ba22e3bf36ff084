"""The directories of `log.dirs`: location of replicas, placement of new ones, offline directories.

Owns the placement. Source: KIP-112 (JBOD), KIP-858 (JBOD with KRaft).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.offset_checkpoint import TopicPartition
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem


class LogDirectories:
    """`dead`: directories that could not be opened, with the reason.

    Directories that fail later have it themselves.
    """

    def __init__(self, directories: Sequence[LogDirectory], dead: dict[Path, str]) -> None:
        self.directories = tuple(directories)
        self.dead = dead

    @classmethod
    def open(
        cls,
        paths: Sequence[Path],
        *,
        node_id: int,
        cluster_id: str,
        files: FileSystem = POSIX,
        on_failure: Callable[[LogDirectory, StorageFailure], None] = lambda _, __: None,
    ) -> "LogDirectories":
        """Open all usable directories.

        Raises WrongDirectory, and StorageFailure if none is usable or two have the same id.
        """
        opened: list[LogDirectory] = []
        dead: dict[Path, str] = {}
        for path in paths:
            try:
                directory = LogDirectory(path, node_id=node_id, cluster_id=cluster_id, files=files)
            except (StorageFailure, DiskFull) as error:
                dead[path] = str(error)
                continue
            directory.on_failure = _told(on_failure, directory)
            opened.append(directory)
        if not opened:
            raise StorageFailure(f"no log directory can be used: {'; '.join(dead.values())}")
        ids = [each.directory_id for each in opened]
        if len(set(ids)) != len(ids):
            raise StorageFailure(
                f"two of {', '.join(map(str, paths))} have the same directory.id: one is a copy of the other. Remove it"
                " from log.dirs"
            )
        return cls(opened, dead)

    @property
    def online(self) -> tuple[LogDirectory, ...]:
        """The usable directories."""
        return tuple(each for each in self.directories if each.failure is None)

    @property
    def are_all_online(self) -> bool:
        """With an offline directory a missing replica may be in it."""
        return not self.dead and len(self.online) == len(self.directories)

    def by_id(self, directory_id: UUID) -> LogDirectory | None:
        """The usable directory with this id."""
        return next((each for each in self.online if each.directory_id == directory_id), None)

    def holding(self, replica: TopicPartition) -> LogDirectory | None:
        """The directory in which the replica's log is open."""
        return next((each for each in self.online if replica in each.logs), None)

    def log(self, replica: TopicPartition) -> PartitionLog | None:
        """The replica's log, if it is open."""
        directory = self.holding(replica)
        return None if directory is None else directory.logs[replica]

    def choose(self) -> LogDirectory:
        """Directory of a new replica without an assigned one: the one with the fewest replicas.

        Raises StorageFailure if all are offline.
        """
        if not self.online:
            raise StorageFailure("all log directories are offline")
        return min(self.online, key=lambda each: len(each.logs))

    def closed_epoch(self) -> int | None:
        """Broker epoch in which the last process stopped cleanly; None unless all directories have
        the same.
        """
        epochs = {each.closed_epoch for each in self.directories}
        return epochs.pop() if len(epochs) == 1 and not self.dead else None


def _told(
    on_failure: Callable[[LogDirectory, StorageFailure], None], directory: LogDirectory
) -> Callable[[StorageFailure], None]:
    return lambda failure: on_failure(directory, failure)
