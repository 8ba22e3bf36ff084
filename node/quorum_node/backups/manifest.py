"""The manifest of a backup: `backup.json`. It is written last, so a backup that has it is complete.

    backup-20261123T211500Z-0000004711/
        backup.json
        __cluster_metadata-0/%020d-%010d.checkpoint    the newest snapshot, if there was one
        __cluster_metadata-0/%020d.log                 the committed log after it
        __cluster_metadata-0/leader-epoch-checkpoint   start offsets of the epochs in that log

Owns the format and the names. The files have the format of a replica's directory, so the same code reads both.
"""

import json
import os
import re
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from quorum_node.json_text import read_json

FILE_NAME = "backup.json"
PREFIX = "backup-"
_FORMAT = 1
_NAME = re.compile(r"backup-\d{8}T\d{6}Z-\d{10,20}")
_FILE = re.compile(r"__cluster_metadata-0/[A-Za-z0-9][A-Za-z0-9._-]*")
"""Names of files. Any other name could point out of the backup, to a file that never ends."""
_TIME_FORM = "%Y%m%dT%H%M%SZ"


class BackupError(Exception):
    """A backup can't be written, read or used; the message states which one, why and what to do."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file. `name`: relative to the directory of the backup."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`end_offset`: exclusive; all records below it were committed. `taken_at`: seconds since 1970."""

    cluster_id: str
    taken_at: int
    end_offset: int
    epoch: int
    metadata_version: int
    """Finalized metadata.version; 0: none is finalized."""
    files: tuple[FileEntry, ...]
    software: str = ""

    @property
    def name(self) -> str:
        """Name of its directory. Names sort by time."""
        at = datetime.fromtimestamp(self.taken_at, UTC).strftime(_TIME_FORM)
        return f"{PREFIX}{at}-{self.end_offset:010d}"

    @property
    def taken_at_text(self) -> str:
        """RFC 3339."""
        return datetime.fromtimestamp(self.taken_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def size_bytes(self) -> int:
        """Total size of all files."""
        return sum(each.size_bytes for each in self.files)

    def to_json(self) -> bytes:
        """Content of `backup.json`."""
        document = {
            "format": _FORMAT,
            "clusterId": self.cluster_id,
            "takenAt": self.taken_at_text,
            "endOffset": self.end_offset,
            "epoch": self.epoch,
            "metadataVersion": self.metadata_version,
            "software": self.software,
            "files": [
                {"name": each.name, "bytes": each.size_bytes, "sha256": each.sha256}
                for each in self.files
            ],
        }
        return (json.dumps(document, indent=2) + "\n").encode()


def open_regular(path: Path) -> BinaryIO:
    """Open a file of a backup, which somebody else may have written: a pipe would keep its reader waiting, and a device may have no
    end. Raises OSError; BackupError for such a file.
    """
    # Without O_NONBLOCK the call itself would wait for a pipe's writer. It has no effect on regular files.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise BackupError(f"{path} is not a regular file: use another backup")


def read_manifest(directory: Path) -> Manifest:
    """Read and check the manifest of a backup. Raises BackupError."""
    path = directory / FILE_NAME
    try:
        with open_regular(path) as file:
            content = file.read()
    except FileNotFoundError:
        raise BackupError(
            f"{directory} is not a complete backup: it has no {FILE_NAME}. Name a backup of `quorum-backup list`"
        ) from None
    except OSError as error:
        raise BackupError(f"{path} can't be read: {error.strerror}") from None
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, place: str) -> Manifest:
    """Check the content of a manifest; `place` names it in messages. Raises BackupError."""
    try:
        document = read_json(content)
        if document["format"] != _FORMAT:
            raise BackupError(
                f"{place} has format {document['format']}, and this version reads format {_FORMAT}: use the version of MetadataQuorum that wrote it, or a newer one"
            )
        return Manifest(
            cluster_id=str(document["clusterId"]),
            taken_at=int(datetime.fromisoformat(document["takenAt"]).timestamp()),
            end_offset=int(document["endOffset"]),
            epoch=int(document["epoch"]),
            metadata_version=int(document["metadataVersion"]),
            files=tuple(
                FileEntry(_file_name(each["name"]), int(each["bytes"]), str(each["sha256"]))
                for each in document["files"]
            ),
            software=str(document.get("software", "")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BackupError(f"{place} is damaged ({error!r}): use another backup") from None


def _file_name(name: str) -> str:
    if not _FILE.fullmatch(name):
        raise ValueError(f"{name!r} is not a file of a backup")
    return name


def is_backup_name(name: str) -> bool:
    """Whether a directory of this name is a backup that was published."""
    return _NAME.fullmatch(name) is not None
