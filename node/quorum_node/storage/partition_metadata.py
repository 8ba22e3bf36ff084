"""`partition.metadata`: version and topic id of the metadata partition, as Kafka writes it."""

from pathlib import Path

from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import POSIX, FileSystem

FILE_NAME = "partition.metadata"
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def ensure_partition_metadata(
    directory: Path, topic_id: str = METADATA_TOPIC_ID, files: FileSystem = POSIX
) -> None:
    """Write the file if it is missing. Raises StorageFailure if it has another content."""
    path = directory / FILE_NAME
    wanted = f"version: 0\ntopic_id: {topic_id}\n"
    content = read_file(path, files)
    if content is None:
        replace_file(path, wanted.encode(), files)
    elif content.split() != wanted.encode().split():
        raise StorageFailure(
            f"{path} does not name topic id {topic_id} in version 0: {content[:100]!r}"
        )
