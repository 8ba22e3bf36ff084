"""`meta.properties` (v1): which node and cluster a data directory belongs to.

    version=1
    cluster.id=...        absent until it is known (a new observer)
    node.id=1
    directory.id=...      the replica UUID of partition 0
    quorum.partitions=2   ours; absent when there is only one

Kafka's file as shipped, between two comments with a checksum (see `properties_text`). It is written durably,
and never overwritten with another identity (K595-05).
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from quorum_node.records.identity import parse_uuid, uuid_text
from quorum_node.storage.atomic_file import read_file, replace_file
from quorum_node.storage.errors import StorageFailure, WrongDirectory, unless_full
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.properties_text import (
    format_checked_properties,
    has_checksum,
    parse_checked_properties,
)

FILE_NAME = "meta.properties"


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Identity of a data directory; the cluster id is None until it was learned from the quorum."""

    node_id: int
    directory_id: UUID
    cluster_id: str | None = None
    partitions: int = 1


def write_meta_properties(directory: Path, meta: MetaProperties, files: FileSystem = POSIX) -> None:
    """Replace the file durably. Raises StorageFailure or DiskFull."""
    pairs = {"version": "1", "node.id": str(meta.node_id)}
    pairs["directory.id"] = uuid_text(meta.directory_id)
    if meta.cluster_id is not None:
        pairs["cluster.id"] = meta.cluster_id
    if meta.partitions > 1:
        pairs["quorum.partitions"] = str(meta.partitions)
    replace_file(directory / FILE_NAME, format_checked_properties(pairs), files)


def read_meta_properties(directory: Path, files: FileSystem = POSIX) -> MetaProperties | None:
    """The identity; None if the directory was never formatted.

    Raises StorageFailure if the file is damaged, WrongDirectory on an unknown version.
    """
    path = directory / FILE_NAME
    content = read_file(path, files)
    if content is None:
        return None
    try:
        pairs = parse_checked_properties(content)
        version = int(pairs["version"])
        if version != 1:
            raise WrongDirectory(f"{path} has version {version}; this node writes version 1")
        return MetaProperties(
            int(pairs["node.id"]),
            parse_uuid(pairs["directory.id"]),
            pairs.get("cluster.id"),
            int(pairs.get("quorum.partitions", 1)),
        )
    except (ValueError, KeyError) as error:
        raise StorageFailure(f"{path} is damaged ({error!r}): {content[:200]!r}") from error


def give_checksum(directory: Path, meta: MetaProperties, files: FileSystem = POSIX) -> None:
    """Rewrite the file if it has no checksum, as files of stock Kafka or of an older version.

    Raises StorageFailure. On a full disk the file stays as it is.
    """
    content = read_file(directory / FILE_NAME, files)
    if content is not None and not has_checksum(content):
        with unless_full():
            write_meta_properties(directory, meta, files)


def check_identity(
    meta: MetaProperties, directory: Path, node_id: int, cluster_id: str | None
) -> None:
    """Raise WrongDirectory unless the directory is this node's and this cluster's."""
    path = directory / FILE_NAME
    if meta.node_id != node_id:
        raise WrongDirectory(
            f"{path} belongs to node.id={meta.node_id}, but the configuration says"
            f" node.id={node_id}: mount the right volume or correct node.id"
        )
    if None not in (cluster_id, meta.cluster_id) and meta.cluster_id != cluster_id:
        raise WrongDirectory(
            f"{path} belongs to cluster.id={meta.cluster_id}, but this node is to be in"
            f" cluster.id={cluster_id}: nothing was changed"
        )
