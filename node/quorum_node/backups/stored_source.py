"""The source of a restore in an object store: a backup, or the newest one of the cluster in a folder or its subfolders."""

from quorum_node.backups.manifest import FILE_NAME, BackupError, Manifest, is_backup_name
from quorum_node.backups.object_address import ObjectAddress
from quorum_node.backups.object_store import ObjectStore
from quorum_node.backups.source import Source, newest_of, of_cluster
from quorum_node.backups.stored_backups import StoredBackups

_MOST_FOLDERS = 100


def find_stored_source(store: ObjectStore, address: ObjectAddress, cluster_id: str) -> Source:
    """The source of this cluster at that address. Its files are checked when they are read. Raises BackupError."""
    single = stored_backup(store, address)
    if single is not None:
        return of_cluster(single, cluster_id)
    candidates = [(each, each[1], each[2]) for each in _backups_in(store, address)]
    backups, name, manifest = newest_of(candidates, cluster_id, str(address))
    assert isinstance(manifest, Manifest)
    return Source(backups.files(name, manifest.files), manifest.cluster_id, manifest)


def stored_backup(store: ObjectStore, address: ObjectAddress) -> Source | None:
    """The backup at that address; None if there is none. Raises BackupError if it is damaged."""
    folder, _, name = address.prefix.rpartition("/")
    backups = StoredBackups(store, f"{folder}/" if folder else "")
    if not name:
        return None
    manifest = backups.manifest(name)
    if manifest is None:
        if is_backup_name(name):
            raise BackupError(f"{address} has no {FILE_NAME}: there is no complete backup")
        return None
    return Source(backups.files(name, manifest.files), manifest.cluster_id, manifest)


def folder_of(store: ObjectStore, address: ObjectAddress) -> StoredBackups:
    """The folder of backups at that address."""
    return StoredBackups(store, f"{address.prefix}/" if address.prefix else "")


Found = tuple[StoredBackups, str, Manifest | BackupError]


def _backups_in(store: ObjectStore, address: ObjectAddress) -> list[Found]:
    here = folder_of(store, address)
    found = [(here, name, manifest) for name, manifest in here.complete()]
    if not found:
        below = store.folders(here.prefix)
        if len(below) > _MOST_FOLDERS:
            raise BackupError(
                f"{address} has {len(below)} folders, and none of them is a backup: name the folder of a quorum"
            )
        folders = [StoredBackups(store, f"{here.prefix}{each}/") for each in sorted(below)]
        found = [(each, name, manifest) for each in folders for name, manifest in each.complete()]
    if not found:
        raise BackupError(
            f"{address} contains no backup ({FILE_NAME}): name a backup, or a folder of backups"
        )
    return found
