"""A folder of backups: a rename publishes a new one, then the oldest ones are deleted.

Owns the names, the order of writes, and how many backups are kept. An incomplete backup never has
the name of a backup:
1. All files are written into `.writing-NAME` and synced; the writer checks them.
2. `backup.json` is written last. Then the directory is renamed and the folder synced.
Only backups of the same cluster are deleted, after the new one was published.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorum_node.backups.manifest import (
    FILE_NAME,
    BackupError,
    Manifest,
    is_backup_name,
    read_manifest,
)
from quorum_node.exclusive_lock import try_to_lock
from quorum_node.storage.atomic_file import sync_directory, sync_file, write_fully

_WRITING, _DELETING = ".writing-", ".deleting-"


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock the folder for one writing process and remove unfinished backups. Raises BackupError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BackupError(f"{folder} can't be used: {error.strerror}") from None
    try:
        if not try_to_lock(descriptor):
            raise BackupError(f"another backup is being written to {folder}: wait for it")
        for each in folder.iterdir():
            if each.name.startswith((_WRITING, _DELETING)):
                shutil.rmtree(each, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)


def begin(folder: Path, name: str) -> Path:
    """An empty directory to write into. Raises OSError."""
    path = folder / (_WRITING + name)
    path.mkdir()
    return path


def publish(written: Path, manifest: Manifest) -> Path:
    """Rename it to its final name, durably. Raises OSError."""
    with (written / FILE_NAME).open("wb") as file:
        write_fully(file.fileno(), manifest.to_json())
        sync_file(file.fileno())
    for each in [*(part for part in written.iterdir() if part.is_dir()), written]:
        sync_directory(each)
    target = written.with_name(manifest.name)
    os.rename(written, target)
    sync_directory(target.parent)
    return target


def backups_in(folder: Path) -> list[Path]:
    """The backups of a folder, oldest first. Raises BackupError."""
    try:
        return sorted(each for each in folder.iterdir() if is_backup_name(each.name))
    except OSError as error:
        raise BackupError(f"{folder} can't be read: {error.strerror}") from None


def prune(folder: Path, cluster_id: str, keep: int) -> list[str]:
    """Delete the oldest backups of this cluster beyond `keep`; returns their names.

    Backups of another cluster and unreadable ones stay.
    """
    own = []
    for each in backups_in(folder):
        try:
            if read_manifest(each).cluster_id == cluster_id:
                own.append(each)
        except BackupError:
            continue
    doomed = own[: max(len(own) - keep, 0)]
    for each in doomed:
        gone = each.with_name(_DELETING + each.name)
        # after this rename a half-deleted directory is not taken for a backup
        os.rename(each, gone)
        shutil.rmtree(gone)
    return [each.name for each in doomed]
