"""The source of a restore: a backup, a folder of backups, or a replica's data directory.

Owns how the source is found, and the checks before any data is used. From a folder the newest
backup of the cluster is taken. If that one is damaged, no older one replaces it: a person has to
judge what would be lost.
"""

from dataclasses import dataclass
from pathlib import Path

from quorum_node.backups.contents import check_files
from quorum_node.backups.folder import backups_in
from quorum_node.backups.manifest import FILE_NAME, BackupError, read_manifest
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FAILURE_MARK
from quorum_node.storage.meta_properties import FILE_NAME as META_FILE
from quorum_node.storage.meta_properties import read_meta_properties


@dataclass(frozen=True, slots=True)
class Source:
    """`path` contains the partition's directory.

    `end_offset`: expected end offset of a backup; None for a replica's directory.
    """

    path: Path
    cluster_id: str
    end_offset: int | None = None


def find_source(path: Path, cluster_id: str) -> Source:
    """The source of this cluster at that path. Raises BackupError."""
    if (path / FILE_NAME).exists():
        return _of_cluster(_backup(path), cluster_id)
    if (path / META_FILE).exists():
        return _of_cluster(_replica(path), cluster_id)
    return _newest_in(path, cluster_id)


def _newest_in(path: Path, cluster_id: str) -> Source:
    """The newest backup of the folder or of its subfolders; each quorum has a subfolder on the volume."""
    found = backups_in(path)
    if not found:
        folders = (each for each in sorted(path.iterdir()) if _is_readable_folder(each))
        found = [backup for each in folders for backup in backups_in(each)]
    if not found:
        raise BackupError(
            f"{path} contains no backup ({FILE_NAME}) and no data directory ({META_FILE}): name the directory of a"
            " backup, a folder of backups, or the directory of a replica"
        )
    others: set[str] = set()
    for each in sorted(found, key=lambda backup: backup.name, reverse=True):
        told = read_manifest(each)
        if told.cluster_id == cluster_id:
            return _backup(each)
        others.add(told.cluster_id)
    raise BackupError(
        f"{path} contains backups of cluster {', '.join(sorted(others))}, and none of cluster {cluster_id}:"
        " correct the cluster id, or name another folder"
    )


def _is_readable_folder(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".") and path.name != "lost+found"


def _backup(path: Path) -> Source:
    manifest = read_manifest(path)
    check_files(path, manifest)
    return Source(path, manifest.cluster_id, manifest.end_offset)


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
            f"{path / META_FILE} does not name a cluster: this replica never joined one"
        )
    return Source(path, meta.cluster_id)


def _of_cluster(source: Source, cluster_id: str) -> Source:
    if source.cluster_id != cluster_id:
        raise BackupError(
            f"{source.path} belongs to cluster {source.cluster_id}, but cluster {cluster_id} is to be restored: correct"
            " the cluster id, or name another directory. To start a new cluster with these records, give both ids"
            " (docs/how-to/back-up-and-restore.md)"
        )
    return source
