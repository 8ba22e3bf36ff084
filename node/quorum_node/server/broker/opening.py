"""Opens the directories in log.dirs at the start: identities, locks, and directories that stay offline.

Owns which problem of a directory keeps only that directory offline, and which one refuses the start. A directory of another node, or a
copy of another directory, is a wrong configuration and refuses it.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from quorum_node.server.broker.data_directories import DataDirectories, DirectoryRecord, NoRecord
from quorum_node.server.broker.data_directory import OpenDataDirectory
from quorum_node.server.broker.data_log import DataDirectory
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.storage.broker.failed_directories import FailedDirectories
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.directory_lock import lock_directory
from quorum_node.storage.errors import DiskFull, OutOfResources, StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import FILE_NAME as META_PROPERTIES
from quorum_node.storage.meta_properties import read_meta_properties

_MARK_SECONDS = 2.0


class RecordedFailures:
    """The `DirectoryRecord` of a broker with several directories."""

    def __init__(self, metadata_path: Path) -> None:
        self._failures = FailedDirectories(metadata_path)

    def failed(self, directory: DataDirectory, failure: StorageFailure) -> None:
        """See `DirectoryRecord`. The mark in the failed directory is written if its disk still allows it."""
        self._failures.add(directory.directory_id, str(failure))
        message = json.dumps({"message": str(failure)})
        latch = FailureLatch(None, Path(directory.path))
        threading.Thread(target=latch.mark_data, args=(message, _MARK_SECONDS), daemon=True).start()


class _Opening:
    """The opening of all directories, one after the other."""

    def __init__(self, metadata_path: Path, node_id: int, cluster_id: str, several: bool) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._failures = FailedDirectories(metadata_path)
        self._several = several
        self._file_of: dict[UUID, Path] = {}
        metadata = read_meta_properties(metadata_path)
        if metadata is not None:
            self._file_of[metadata.directory_id] = metadata_path / META_PROPERTIES

    def check(self, path: Path) -> None:
        """Lock the directory, and refuse copies and directories that failed before. Nothing is written yet.

        Raises WrongDirectory, StorageFailure or DiskFull.
        """
        lock_directory(path)
        meta = read_meta_properties(path)
        if meta is None:
            return
        file, other = path / META_PROPERTIES, self._file_of.get(meta.directory_id)
        if other is not None:
            raise WrongDirectory(
                f"{file} has the same directory.id as {other}: one is a copy of the other. Restore the file in log.dirs,"
                " or empty that directory: its replicas are then fetched again. Nothing was changed"
            )
        self._file_of[meta.directory_id] = file
        mark = FailureLatch(None, path)
        reasons = [self._failures.reason(meta.directory_id)] if self._several else []
        reason = next((each for each in (*reasons, mark.read()) if each is not None), None)
        if reason is not None:
            raise StorageFailure(
                f"{path} failed before: {reason}. Empty the directory: its replicas are then fetched again. Only if the"
                f" disk is known to be good: remove {self._failures.path} and {mark.places()}, and restart the node"
            )

    def open(self, path: Path) -> OpenDataDirectory:
        """Raises WrongDirectory, StorageFailure or DiskFull."""
        return OpenDataDirectory(
            LogDirectory(path, node_id=self._node_id, cluster_id=self._cluster_id)
        )


def open_data_directories(
    paths: Sequence[Path],
    metadata_path: Path,
    node_id: int,
    cluster_id: str,
    events: BrokerEvents,
    ended: Callable[[StorageFailure | DiskFull], None],
) -> DataDirectories:
    """Open the directories; an empty one is initialized for this broker. `metadata_path`: the directory of the metadata log.

    Raises WrongDirectory and OutOfResources, or StorageFailure or DiskFull if none can be opened.
    """
    opening = _Opening(metadata_path, node_id, cluster_id, len(paths) > 1)
    failures: dict[Path, StorageFailure | DiskFull] = {}
    for path in paths:
        try:
            opening.check(path)
        except OutOfResources:
            raise
        except (StorageFailure, DiskFull) as failure:
            failures[path] = failure
    opened: list[OpenDataDirectory] = []
    for path in paths:
        if path not in failures:
            try:
                opened.append(opening.open(path))
            except OutOfResources:
                raise
            except (StorageFailure, DiskFull) as failure:
                failures[path] = failure
    if not opened:
        raise next(iter(failures.values()))
    offline = {str(path): str(why) for path, why in failures.items()}
    for name, reason in offline.items():
        events.directory_offline(name, reason)
    record: DirectoryRecord = RecordedFailures(metadata_path) if len(paths) > 1 else NoRecord()
    return DataDirectories(opened, events, ended, offline, record)
