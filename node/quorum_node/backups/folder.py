"""A folder with several backups: one is published by a rename, the oldest ones go.

Owns names, the order of what is written, and how many are kept. A backup that is not whole never has a backup's name:

1. everything is written into `.writing-NAME` and synced, and checked by whoever writes it;
2. `backup.json` comes last, then the directory gets its name, and the folder is synced.

Only backups of the same cluster are ever deleted, after the new one was published.
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
    """One process at a time writes into the folder; what an earlier one left unfinished is removed. Raises BackupError."""
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
    """Give it its name, durably. Raises OSError."""
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
    """Oldest first. Raises BackupError."""
    try:
        return sorted(each for each in folder.iterdir() if is_backup_name(each.name))
    except OSError as error:
        raise BackupError(f"{folder} can't be read: {error.strerror}") from None


def prune(folder: Path, cluster_id: str, keep: int) -> list[str]:
    """Delete the oldest backups of this cluster beyond `keep`; their names. What is of another cluster, or can't be read, stays."""
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
        os.rename(each, gone)  # a half deleted one has no backup's name
        shutil.rmtree(gone)
    return [each.name for each in doomed]
