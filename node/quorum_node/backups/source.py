"""The source of a restore: a backup, a folder of backups, or a replica's data directory.

Owns how the source is found, and the checks before any data is used. From a folder the backup of
the cluster whose log ends last is taken. If that one is damaged, no older one replaces it: a person
has to judge what would be lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from quorum_node.backups.contents import check_files
from quorum_node.backups.files import BackupFiles, DirectoryFiles
from quorum_node.backups.folder import manifests_in
from quorum_node.backups.manifest import (
    FILE_NAME,
    BackupError,
    FileEntry,
    Manifest,
    read_manifest,
)
from quorum_node.backups.retention import age_order
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FAILURE_MARK
from quorum_node.storage.meta_properties import FILE_NAME as META_FILE
from quorum_node.storage.meta_properties import read_meta_properties

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Source:
    """`manifest`: of a backup; None for a replica's directory."""

    files: BackupFiles
    cluster_id: str
    manifest: Manifest | None = None

    @property
    def place(self) -> str:
        """Location of the source, for messages."""
        return self.files.place

    @property
    def end_offset(self) -> int | None:
        """Expected end offset of a backup, exclusive; None for a replica's directory."""
        return None if self.manifest is None else self.manifest.end_offset

    @property
    def entries(self) -> dict[str, FileEntry]:
        """Expected sizes and checksums of a backup's files, by name; empty for a replica's directory."""
        return {} if self.manifest is None else {each.name: each for each in self.manifest.files}


def find_source(path: Path, cluster_id: str) -> Source:
    """The source of this cluster at that path. Raises BackupError."""
    try:
        if (path / FILE_NAME).exists():
            return of_cluster(_backup(path), cluster_id)
        if (path / META_FILE).exists():
            return of_cluster(_replica(path), cluster_id)
        return _newest_in(path, cluster_id)
    except OSError as error:  # `exists` raises it if the directory may not be searched
        raise BackupError(f"{path} can't be read: {error.strerror}") from None


def _newest_in(path: Path, cluster_id: str) -> Source:
    """The newest backup of the folder or of its subfolders; each quorum has a subfolder on the volume."""
    found = _candidates(path)
    if not found:
        folders = (each for each in sorted(path.iterdir()) if _is_readable_folder(each))
        found = [backup for each in folders for backup in _candidates(each)]
    if not found:
        raise BackupError(
            f"{path} contains no backup ({FILE_NAME}) and no data directory ({META_FILE}): name the directory of a"
            " backup, a folder of backups, or the directory of a replica"
        )
    return _backup(newest_of(found, cluster_id, str(path)))


def _candidates(folder: Path) -> list[tuple[Path, str, Manifest | BackupError]]:
    return [(folder / name, name, manifest) for name, manifest in manifests_in(folder)]


def newest_of(
    candidates: Sequence[tuple[Found, str, Manifest | BackupError]], cluster_id: str, folder: str
) -> Found:
    """The backup of this cluster whose log ends last. `candidates`: each with its name, and its manifest or why that can't be used.

    Raises BackupError if there is none, or if an unusable one has a later name: it may be the newest.
    """
    usable = [
        (manifest, name, each)
        for each, name, manifest in candidates
        if isinstance(manifest, Manifest)
    ]
    own = [each for each in usable if each[0].cluster_id == cluster_id]
    newest = max(own, key=lambda each: age_order(each[0]), default=None)
    for _, name, manifest in sorted(candidates, key=itemgetter(1), reverse=True):
        if isinstance(manifest, BackupError) and (newest is None or name > newest[1]):
            raise manifest
    if newest is not None:
        return newest[2]
    others = sorted({manifest.cluster_id for manifest, *_ in usable})
    raise BackupError(
        f"{folder} contains backups of cluster {', '.join(others)}, and none of cluster {cluster_id}:"
        " correct the cluster id, or name another folder"
    )


def _is_readable_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".") and path.name != "lost+found"


def _backup(path: Path) -> Source:
    manifest = read_manifest(path)
    files = DirectoryFiles(path)
    check_files(files, manifest)
    return Source(files, manifest.cluster_id, manifest)


def _replica(path: Path) -> Source:
    try:
        meta = read_meta_properties(path)
    except (StorageFailure, WrongDirectory) as error:
        raise BackupError(str(error)) from None
    assert meta is not None
    if (path / FAILURE_MARK).exists():
        raise BackupError(
            f"{path / FAILURE_MARK} marks the storage of this replica as failed: take the directory of another"
            " replica, or a backup. Only if there is none, and the directory can be read, remove that file"
        )
    if meta.partitions > 1:
        raise BackupError(
            f"{path} has {meta.partitions} quorum partitions: only one can be restored"
        )
    if meta.cluster_id is None:
        raise BackupError(
            f"{path / META_FILE} does not name a cluster, as this replica never joined one: take the directory of another"
            " replica, or a backup"
        )
    return Source(DirectoryFiles(path), meta.cluster_id)


def of_cluster(source: Source, cluster_id: str) -> Source:
    """The source, if it is of this cluster; raises BackupError otherwise."""
    if source.cluster_id != cluster_id:
        raise BackupError(
            f"{source.place} belongs to cluster {source.cluster_id}, but cluster {cluster_id} is to be restored: correct"
            " the cluster id, or name another directory. To start a new cluster with these records, give both ids"
            " (docs/how-to/back-up-and-restore.md)"
        )
    return source
