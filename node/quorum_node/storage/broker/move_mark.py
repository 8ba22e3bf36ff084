"""`replica-move`: the log directory to which a replica is moved, in the folder of its present log.

Owns the file. It is written before the copy takes the place of the log, and goes with the folder afterwards. Until then both directories
have a log of the replica, and only the copy gets records: after a crash the copy is the current one. Stock brokers ignore the file.
"""

from pathlib import Path
from uuid import UUID

from quorum_node.records.identity import uuid_text
from quorum_node.storage.atomic_file import replace_file, sync_directory
from quorum_node.storage.broker.uuid_file import read_uuid
from quorum_node.storage.errors import storage_errors
from quorum_node.storage.file_system import FileSystem

FILE_NAME = "replica-move"


def write_move_mark(folder: Path, target: UUID, files: FileSystem) -> None:
    """Durable afterwards. Raises StorageFailure or DiskFull."""
    text = f"version: 0\ndirectory_id: {uuid_text(target)}\n"
    replace_file(folder / FILE_NAME, text.encode(), files)


def read_move_mark(folder: Path, files: FileSystem) -> UUID | None:
    """The directory id; None if there is no mark. Raises StorageFailure if it is damaged."""
    return read_uuid(folder / FILE_NAME, "directory_id", files)


def remove_move_mark(folder: Path, files: FileSystem) -> None:
    """Nothing happens if there is none. Raises StorageFailure."""
    with storage_errors(f"remove {folder / FILE_NAME}"):
        if files.exists(folder / FILE_NAME):
            files.unlink(folder / FILE_NAME)
            sync_directory(folder, files)
