"""The record of failed log directories: `failed-log-directories` in the directory of the metadata log.

A directory that failed once is not used again under its `directory.id`. After a failed sync the kernel drops the pages that it could not
write, so the log may lack acknowledged records although it can be read. The record is on another disk, because the failed one often can't
be written. An administrator who knows that the disk is good removes the file. An empty directory gets a new id and needs nothing.
"""

import json
from pathlib import Path
from uuid import UUID

from quorum_node.json_text import read_json
from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "failed-log-directories"


class FailedDirectories:
    """The file in `folder`. A file that can't be parsed names every directory: none of them is trusted."""

    def __init__(self, folder: Path, files: FileSystem = POSIX) -> None:
        """Raises StorageFailure if the file can't be read."""
        self.path = folder / FILE_NAME
        self._files = files
        self._reasons: dict[UUID, str] = {}
        self._damage: str | None = None
        content = read_file(self.path, files)
        if content is None:
            return
        try:
            pairs = read_json(content)
            self._reasons = {parse_uuid(key): str(value) for key, value in pairs.items()}
        except (ValueError, AttributeError) as error:
            self._damage = f"{self.path} is damaged ({error!r})"

    def reason(self, directory_id: UUID) -> str | None:
        """Why the directory failed; None if it did not."""
        return self._damage or self._reasons.get(directory_id)

    def add(self, directory_id: UUID, reason: str) -> None:
        """Record a failure; the first reason is kept. Raises StorageFailure or DiskFull."""
        if directory_id not in self._reasons:
            self._reasons[directory_id] = reason
            pairs = {uuid_text(key): value for key, value in self._reasons.items()}
            replace_file(self.path, json.dumps(pairs, indent=1).encode(), self._files)
