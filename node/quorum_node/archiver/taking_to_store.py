"""Takes one backup of a running quorum into an object store.

Owns the order: copy to the local disk and replay, reserve the name, write the files, read them back from the store and
replay them, publish, delete old backups. The local copy is needed because a snapshot may be deleted while it is read,
and because the data that the store returns is compared with the written data.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_node.archiver.taking import NotPruned, copy_and_check, not_written
from quorum_node.backups.contents import check_files, read_contents
from quorum_node.backups.manifest import BackupError, Manifest
from quorum_node.backups.stored_backups import StoredBackups
from quorum_node.client.committed_log import CommittedLog, CommittedLogError
from quorum_node.storage.errors import StorageFailure


def take_to_store(
    log: CommittedLog, backups: StoredBackups, scratch: Path, keep: int, software: str
) -> Manifest:
    """Write, check and publish a backup, and keep the newest `keep`. Raises BackupError, NotPruned."""
    with _scratch(scratch) as written:
        manifest = copy_and_check(log, written, int(time.time()), software)
        # Clean before writing, so that incomplete backups never exceed those of one day, even if no run completes.
        backups.clean(manifest.cluster_id, manifest.taken_at)
        backups.begin(manifest.name, manifest.cluster_id, manifest.taken_at)
        try:
            _write(backups, written, manifest)
        except BaseException:
            _discard(backups, manifest.name)
            raise
    backups.publish(manifest)
    try:
        backups.prune(manifest, keep)
    except BackupError as error:
        place = backups.files(manifest.name, manifest.files).place
        raise NotPruned(place, str(error), manifest) from None
    return manifest


def _write(backups: StoredBackups, written: Path, manifest: Manifest) -> None:
    for each in manifest.files:
        backups.upload(manifest.name, written, each)
    files = backups.files(manifest.name, manifest.files)
    check_files(files, manifest)
    found = read_contents(files)
    if found.end_offset != manifest.end_offset:
        raise BackupError(
            f"{files.place} was read back and ends at offset {found.end_offset}, but {manifest.end_offset} was"
            " written: do not trust this store, and write backups to another one"
        )


def _discard(backups: StoredBackups, name: str) -> None:
    """Discard the backup after an error. An error here is ignored, as the first one is reported; a later run cleans up."""
    try:
        backups.discard(name)
    except BackupError:
        pass


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    try:
        with TemporaryDirectory(prefix="quorum-backup-", dir=folder) as made:
            yield Path(made)
    except (CommittedLogError, StorageFailure) as error:
        raise BackupError(str(error)) from None
    except OSError as error:
        raise BackupError(not_written(folder, error)) from None
