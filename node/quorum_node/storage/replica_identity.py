"""`replica.properties`: the replica UUID of a partition other than the first.

    version=1
    replica.uuid=...

The replica UUID of partition 0 is directory.id in meta.properties, as in Kafka. Every further
partition has its own UUID (K595-31) in this file in its directory. It is written by the format,
never over another identity, and has the same two comments with a checksum as meta.properties.
"""

from pathlib import Path
from uuid import UUID

from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.properties_text import format_checked_properties, parse_checked_properties

FILE_NAME = "replica.properties"


def write_replica_identity(directory: Path, replica_uuid: UUID, files: FileSystem = POSIX) -> None:
    """Write the file durably. Raises StorageFailure or DiskFull."""
    pairs = {"version": "1", "replica.uuid": uuid_text(replica_uuid)}
    replace_file(directory / FILE_NAME, format_checked_properties(pairs), files)


def read_replica_identity(directory: Path, files: FileSystem = POSIX) -> UUID:
    """The UUID. Raises StorageFailure when it is missing or damaged, WrongDirectory on a version."""
    path = directory / FILE_NAME
    content = read_file(path, files)
    if content is None:
        raise StorageFailure(f"{path} is missing: the identity of this partition's replica is lost")
    try:
        pairs = parse_checked_properties(content)
        version = int(pairs["version"])
        if version != 1:
            raise WrongDirectory(f"{path} has version {version}; this node writes version 1")
        return parse_uuid(pairs["replica.uuid"])
    except (ValueError, KeyError) as error:
        raise StorageFailure(f"{path} is damaged ({error!r}): {content[:200]!r}") from error
