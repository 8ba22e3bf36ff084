"""A folder of backups in an object store.

An object store has no rename, so a backup is visible once its manifest exists, which is written last:
1. `incomplete.json` is created with the cluster id. The store refuses this if it exists: each name has one writer.
2. The files are written, read back and replayed.
3. `backup.json` is created, then `incomplete.json` deleted.
To delete a backup, `incomplete.json` is written again, then the manifest is deleted, then the files. So a folder
without a manifest is not a backup. Its `incomplete.json` states its cluster and its time; later runs of this cluster
remove the folder after a day.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from quorum_node.backups.files import PARTITION
from quorum_node.backups.manifest import (
    FILE_NAME,
    BackupError,
    FileEntry,
    Manifest,
    is_backup_name,
    parse_manifest,
)
from quorum_node.backups.object_store import ObjectStore
from quorum_node.backups.retention import surplus
from quorum_node.json_text import read_json

MARK = "incomplete.json"
STALE_S = 86_400
"""Age at which an incomplete backup is removed. No run takes that long: the operator ends it after an hour."""
_MOST_CLEANED = 20
"""Maximum number of incomplete backups that one run removes."""
_MOST_MANIFEST = 16 << 20
_MOST_MARK = 1 << 16


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of one backup, as its manifest or its writer lists them."""

    store: ObjectStore
    prefix: str
    """Prefix of the keys, with a slash at the end."""
    entries: tuple[FileEntry, ...]

    @property
    def place(self) -> str:
        """Location of the backup, for messages."""
        return self.store.place_of(self.prefix.rstrip("/"))

    def place_of(self, name: str) -> str:
        """Location of a file, for messages."""
        return self.store.place_of(self.prefix + name)

    def sizes(self) -> dict[str, int]:
        """Sizes from the list of entries."""
        return {each.name: each.size_bytes for each in self.entries}

    def pieces(self, name: str) -> Iterator[bytes]:
        """Read from the store."""
        return self.store.pieces(self.prefix + name)


class StoredBackups:
    """The folder. Every call may raise BackupError."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        """`prefix`: empty, or with a slash at the end."""
        self.store, self.prefix = store, prefix

    def names(self) -> list[str]:
        """Names of backups, oldest first, including incomplete ones."""
        return sorted(each for each in self.store.folders(self.prefix) if is_backup_name(each))

    def manifest(self, name: str) -> Manifest | None:
        """The manifest of a backup; None if the backup is incomplete. Raises BackupError if it is damaged."""
        key = f"{self.prefix}{name}/{FILE_NAME}"
        content = self.store.read(key, _MOST_MANIFEST)
        return None if content is None else parse_manifest(content, self.store.place_of(key))

    def complete(self) -> list[tuple[str, Manifest | BackupError]]:
        """The complete backups, oldest first, each with its manifest, or with the error if that can't be used."""
        found: list[tuple[str, Manifest | BackupError]] = []
        for name in self.names():
            try:
                manifest = self.manifest(name)
            except BackupError as error:
                if type(error) is not BackupError:
                    raise  # the store failed
                found.append((name, error))
                continue
            if manifest is not None:
                found.append((name, manifest))
        return found

    def files(self, name: str, entries: tuple[FileEntry, ...]) -> StoredFiles:
        """Read access to the files of a backup."""
        return StoredFiles(self.store, f"{self.prefix}{name}/", entries)

    def begin(self, name: str, cluster_id: str, now_s: int) -> None:
        """Reserve the name. Raises BackupError if another process has it."""
        from quorum_node.backups.object_errors import ObjectStoreError

        try:
            self.store.write_once(self._key(name, MARK), _mark(cluster_id, now_s))
        except ObjectStoreError as error:
            if not error.exists_already:
                raise
            raise BackupError(
                f"another backup is being written to {self.store.place_of(self.prefix + name)}: wait for it"
            ) from None

    def upload(self, name: str, folder: Path, entry: FileEntry) -> None:
        """Write one file of the backup."""
        self.store.upload(self._key(name, entry.name), folder / entry.name)

    def publish(self, manifest: Manifest) -> None:
        """Complete the backup by its manifest, which is read back. Raises BackupError if the store loses data."""
        key = self._key(manifest.name, FILE_NAME)
        self.store.write_once(key, manifest.to_json())
        if self.manifest(manifest.name) != manifest:
            raise BackupError(
                f"{self.store.place_of(key)} was read back and is not what was written: do not trust this store, and"
                " write backups to another one"
            )
        self.store.delete(self._key(manifest.name, MARK))

    def discard(self, name: str) -> None:
        """Delete an incomplete backup, its mark last."""
        prefix, mark = f"{self.prefix}{name}/", self._key(name, MARK)
        for key, upload_id in self.store.uploads(prefix):
            self.store.abort(key, upload_id)
        for key in list(self.store.keys(prefix)):
            if key.startswith(f"{prefix}{PARTITION}/"):
                self.store.delete(key)
        self.store.delete(mark)

    def clean(self, cluster_id: str, now_s: float) -> list[str]:
        """Remove this cluster's incomplete backups that are older than a day; returns their names."""
        removed: list[str] = []
        for name in self.names():
            if len(removed) == _MOST_CLEANED:
                break
            mark = self.store.read(self._key(name, MARK), _MOST_MARK)
            owner, since_s = _read_mark(mark)
            if owner != cluster_id or now_s - since_s < STALE_S:
                continue
            if self.store.read(self._key(name, FILE_NAME), _MOST_MANIFEST) is None:
                self.discard(name)
                removed.append(name)
            else:
                # The backup is complete: its writer, or a run that was deleting it, ended before the next request.
                self.store.delete(self._key(name, MARK))
        return removed

    def prune(self, newest: Manifest, keep: int) -> list[str]:
        """Delete the oldest backups of this cluster beyond `keep`; returns their names. `newest`: the one just published.

        Backups of another cluster and unreadable ones stay.
        """
        found = {
            name: manifest
            for name, manifest in self.complete()
            if isinstance(manifest, Manifest) and manifest.name == name
        }
        doomed = surplus(found, newest, keep)
        for name in doomed:
            self.store.write(self._key(name, MARK), _mark(newest.cluster_id, newest.taken_at))
            self.store.delete(self._key(name, FILE_NAME))
            self.discard(name)
        return doomed

    def _key(self, name: str, file: str) -> str:
        return f"{self.prefix}{name}/{file}"


def _mark(cluster_id: str, now_s: int) -> bytes:
    return (json.dumps({"clusterId": cluster_id, "since": now_s}) + "\n").encode()


def _read_mark(content: bytes | None) -> tuple[str | None, float]:
    """Cluster id and time of a mark; no cluster id if it can't be read."""
    try:
        document = read_json(content or b"null")
        return str(document["clusterId"]), float(document["since"])
    except (ValueError, KeyError, TypeError):
        return None, 0.0
