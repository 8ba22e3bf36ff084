"""Takes one backup of a running quorum: its newest snapshot, and the committed log after it.

Owns the order: read, sync, read back from the disk and replay, publish, delete old backups. It
reads from the leader by Kafka's protocol without a replica id, so no commit waits for it. It only
needs the permission to read the log.
"""

import os
import time
from pathlib import Path

from quorum_node.archiver.complete_log import CompleteLog
from quorum_node.backups import folder
from quorum_node.backups.contents import Contents, check_files, entry_of, read_contents
from quorum_node.backups.files import PARTITION, DirectoryFiles
from quorum_node.backups.manifest import BackupError, Manifest
from quorum_node.client.committed_log import CommittedLog, CommittedLogError, SnapshotDeleted
from quorum_node.records.metadata.metadata_version import LATEST_LEVEL
from quorum_node.storage.errors import StorageFailure

_TRIES = 5
"""Attempts. A snapshot can be deleted during the copy when a newer one replaces it or the leader changes."""


class NotPruned(BackupError):
    """The backup `manifest` is complete, but older ones could not be deleted."""

    def __init__(self, place: str, why: str, manifest: Manifest) -> None:
        super().__init__(
            f"{place} is complete, but older backups can't be deleted, so they fill the space: {why}"
        )
        self.manifest = manifest


def take(log: CommittedLog, target: Path, keep: int, software: str) -> Manifest:
    """Write, check and publish a backup into `target`, and keep the newest `keep`. Raises BackupError, NotPruned."""
    try:
        with folder.only_writer(target):
            return _take(log, target, keep, software)
    except (CommittedLogError, StorageFailure) as error:
        raise BackupError(str(error)) from None
    except OSError as error:
        raise BackupError(not_written(target, error)) from None


def not_written(place: Path, error: OSError) -> str:
    """The message of a failed write into a directory."""
    return f"{place} can't be written to: {error.strerror or error}. Correct the path, its owner or the free space"


def _take(log: CommittedLog, target: Path, keep: int, software: str) -> Manifest:
    taken_at = int(time.time())
    written = folder.begin(target, f"{taken_at}-{os.getpid()}")
    try:
        manifest = copy_and_check(log, written, taken_at, software)
        if (target / manifest.name).exists():
            raise BackupError(
                f"{target / manifest.name} exists already, from the same second and with the same end offset: there is"
                " nothing new to back up, unless the clock was set back"
            )
        published = folder.publish(written, manifest)
    except BaseException:
        folder.discard(written)
        raise
    try:
        check_files(DirectoryFiles(published), manifest)
    except BackupError:
        folder.withdraw(published)
        raise
    try:
        folder.prune(target, manifest, keep)
    except (OSError, BackupError) as error:
        raise NotPruned(str(published), _why(error, target), manifest) from None
    return manifest


def _why(error: OSError | BackupError, target: Path) -> str:
    if isinstance(error, BackupError):
        return str(error)
    return f"{error.filename or target}: {error.strerror or error}"


def copy_and_check(log: CommittedLog, written: Path, taken_at: int, software: str) -> Manifest:
    """Copy the log into an empty directory, read it back from the disk and replay it.

    A log that can't be replayed now could not be restored later. Raises BackupError, CommittedLogError, StorageFailure, OSError.
    """
    cluster_id = log.cluster_id()
    end_offset = _copy(log, written / PARTITION)
    files = DirectoryFiles(written)
    entries = tuple(entry_of(files, name) for name in files.sizes())
    found = read_contents(files)
    if found.end_offset != end_offset:
        raise BackupError(
            f"{written} was read back and ends at offset {found.end_offset}, but {end_offset} was written:"
            " do not trust this volume, and write backups to another one"
        )
    _check_versions(found, cluster_id)
    return Manifest(
        cluster_id,
        taken_at,
        end_offset,
        found.committed.epoch,
        found.metadata_version,
        entries,
        software,
    )


def _copy(log: CommittedLog, partition: Path) -> int:
    """Copy the snapshot and the log up to the present high watermark. Returns the end offset."""
    for left in reversed(range(_TRIES)):
        partition.mkdir()
        try:
            return CompleteLog(log, partition).copy()
        except SnapshotDeleted:
            if not left:
                raise
        for each in partition.iterdir():
            each.unlink()
        partition.rmdir()
    raise AssertionError("the last try returns or raises")


def _check_versions(found: Contents, cluster_id: str) -> None:
    """Raises BackupError if these records are of another cluster or of a later version."""
    named = found.voters.cluster_id if found.voters is not None else None
    if named not in (None, cluster_id):
        raise BackupError(
            f"the log belongs to cluster {named}, but the quorum reports cluster {cluster_id}: --bootstrap"
            " names servers of two clusters"
        )
    if found.metadata_version > LATEST_LEVEL:
        raise BackupError(
            f"metadata.version is {found.metadata_version}, and this version supports {LATEST_LEVEL} at most: write backups with the image version of the members"
        )
