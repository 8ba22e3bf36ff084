"""Names of replica directories: `TOPIC-PARTITION`, and their names before removal.

Owns the names and `partition.metadata`. Source: a stock broker's `LocalLog` and
`PartitionMetadataFile`.
"""

import re
from pathlib import Path
from uuid import UUID

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.storage.broker.offset_checkpoint import TopicPartition
from quorum_node.storage.broker.uuid_file import read_uuid
from quorum_node.storage.file_system import FileSystem
from quorum_node.storage.partition_metadata import FILE_NAME

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
FUTURE_SUFFIX = "-future"
"""Of a copy that a move between log directories has not finished."""
_MOST_CHARACTERS = 255
_REPLICA = re.compile(r"([a-zA-Z0-9._-]{1,249})-([0-9]{1,10})")
_GOING = re.compile(r"\S+-\S+\.\S+(?:-delete|-stray|-future)")


def folder_name(replica: TopicPartition) -> str:
    """Name of the directory of a replica's files."""
    return f"{replica[0]}-{replica[1]}"


def parse_folder_name(name: str) -> TopicPartition | None:
    """The replica of a directory; None if it is not the directory of an active replica."""
    found = _REPLICA.fullmatch(name)
    if found is None or is_going(name) or name.startswith("__cluster_metadata-"):
        return None
    replica = found[1], int(found[2])
    # A copy such as `topic-03` is not the directory of partition 3.
    return replica if folder_name(replica) == name else None


def is_going(name: str) -> bool:
    """Whether it was renamed for removal, or is an unfinished copy, which a start removes."""
    return _GOING.fullmatch(name) is not None


def going_name(replica: TopicPartition, suffix: str) -> str:
    """A unique name with a suffix that a stock broker recognizes."""
    tail = f"-{replica[1]}.{fresh_uuid().hex}{suffix}"
    return replica[0][: _MOST_CHARACTERS - len(tail)] + tail


def is_folder(path: Path, files: FileSystem) -> bool:
    """Whether the path is a directory. A file may have such a name, too, and a directory may be renamed for removal meanwhile.

    Raises OSError.
    """
    try:
        files.names(path)
    except (NotADirectoryError, FileNotFoundError):
        return False
    return True


def remove_folder(path: Path, files: FileSystem) -> None:
    """Remove a directory and its content. Links are not followed. Raises OSError."""
    found = [path]
    while found:
        folder = found[-1]
        count = len(found)
        for name in files.names(folder):
            try:
                files.unlink(folder / name)
            except (IsADirectoryError, PermissionError):
                if not is_folder(folder / name, files):
                    raise
                found.append(folder / name)
        if len(found) == count:
            files.remove_directory(found.pop())


def topic_id_in(folder: Path, files: FileSystem) -> UUID | None:
    """Topic id in partition.metadata; None if the file does not exist. Raises StorageFailure if it is damaged."""
    return read_uuid(folder / FILE_NAME, "topic_id", files)
