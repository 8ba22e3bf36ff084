"""A folder of backups: a rename publishes a new one, then the oldest ones are deleted.

Owns the names, the order of writes, and how many backups are kept. An incomplete backup never has
the name of a backup:
1. All files are written into `.writing-NAME` and synced; the writer checks them.
2. `backup.json` is written last. Then the directory is renamed and the folder synced.
Only backups of the same cluster are deleted, after the new one was published. Only owner and group may read a backup,
because it contains all metadata, credentials as well.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quorum_node.backups.manifest import (
    FILE_NAME,
    BackupError,
    Manifest,
    is_backup_name,
    read_manifest,
)
from quorum_node.backups.retention import surplus
from quorum_node.exclusive_lock import try_to_lock
from quorum_node.storage.atomic_file import sync_directory, sync_file, write_fully

_WRITING, _DELETING = ".writing-", ".deleting-"
_LOCK = ".lock"
_READABLE_BY_OTHERS = 0o007
"""Bits of the umask, as for the files of a replica."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Lock the folder for one writing process and remove unfinished backups. Raises BackupError.

    Files that this process creates meanwhile are not readable by others.
    """
    umask = os.umask(_READABLE_BY_OTHERS)
    os.umask(umask | _READABLE_BY_OTHERS)
    try:
        with ExitStack() as opened:
            if not all(try_to_lock(each) for each in _lockable(folder, opened)):
                raise BackupError(f"another backup is being written to {folder}: wait for it")
            for each in folder.iterdir():
                if each.name.startswith((_WRITING, _DELETING)):
                    discard(each)
            yield
    finally:
        os.umask(umask)


def _lockable(folder: Path, opened: ExitStack) -> Iterator[int]:
    """What a writer locks. NFS locks a directory for the processes of one host only, and a file for those of all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, flags in ((folder, os.O_DIRECTORY), (folder / _LOCK, os.O_RDWR | os.O_CREAT)):
            descriptor = os.open(path, flags, 0o660)
            opened.callback(os.close, descriptor)
            yield descriptor
    except OSError as error:
        raise BackupError(f"{folder} can't be used: {error.strerror}") from None


def begin(folder: Path, name: str) -> Path:
    """An empty directory to write into. Raises OSError."""
    path = folder / (_WRITING + name)
    path.mkdir()
    return path


def discard(written: Path) -> None:
    """Delete an unfinished backup, which would take space from other backups until the next run. Ignores errors."""
    shutil.rmtree(written, ignore_errors=True)


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


def manifests_in(folder: Path) -> list[tuple[str, Manifest | BackupError]]:
    """Names of the backups of a folder, oldest first, each with its manifest, or with the error if that can't be used. Raises BackupError."""
    found: list[tuple[str, Manifest | BackupError]] = []
    for each in backups_in(folder):
        try:
            found.append((each.name, read_manifest(each)))
        except BackupError as error:
            found.append((each.name, error))
    return found


def withdraw(published: Path) -> None:
    """Take the name from a published backup that turned out to be damaged: it would count as the newest one."""
    os.rename(published, published.with_name(_DELETING + published.name))


def prune(folder: Path, newest: Manifest, keep: int) -> list[str]:
    """Delete the oldest backups of this cluster beyond `keep`; returns their names. `newest`: the one just published.

    Backups of another cluster and unreadable ones stay.
    """
    found = {name: each for name, each in manifests_in(folder) if isinstance(each, Manifest)}
    doomed = surplus(found, newest, keep)
    for name in doomed:
        gone = folder / (_DELETING + name)
        # after this rename a half-deleted directory is not taken for a backup
        os.rename(folder / name, gone)
        shutil.rmtree(gone)
    return doomed
