"""Small files beside a log that contain a version and an id, such as `partition.metadata`.

Owns their reading. Source: a stock broker's `PartitionMetadataFile`.
"""

from pathlib import Path
from uuid import UUID

from quorum_node.records.identity import parse_uuid
from quorum_node.storage.atomic_file import read_file
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.file_system import FileSystem


def read_uuid(path: Path, key: str, files: FileSystem) -> UUID | None:
    """The id after `key` in version 0 of a file; None if it does not exist. Raises StorageFailure if it is damaged."""
    content = read_file(path, files)
    if content is None:
        return None
    try:
        pairs = dict(line.split(": ") for line in content.decode().splitlines())
        if pairs["version"] != "0":
            raise ValueError(f"version {pairs['version']}")
        return parse_uuid(pairs[key])
    except (ValueError, KeyError) as error:
        raise StorageFailure(f"{path} is damaged ({error!r})") from error
