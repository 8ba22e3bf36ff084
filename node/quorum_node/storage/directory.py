"""The data directory of a node: formats it once, opens it, and refuses one of another node.

Kafka's layout, once per quorum partition (K595-31; see `partition_directory`):

    meta.properties
    __cluster_metadata-0/...
    __cluster_metadata-1/...                         with quorum.partitions=2

Replica UUID of partition 0 == directory.id (K853-01). All UUIDs are generated when an *empty* directory
is formatted, and never again. A directory that has files but no meta.properties is damaged.
A directory that this pod formatted before and that is empty now was lost. The number of
partitions is fixed by the format as well.
"""

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from quorum_node.storage.atomic_file import TEMP_SUFFIX, sync_directory
from quorum_node.storage.errors import StorageFailure, WrongDirectory, storage_errors
from quorum_node.storage.failure_latch import FAILURE_MARK, FailureLatch
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.meta_properties import (
    MetaProperties,
    check_identity,
    give_checksum,
    read_meta_properties,
    write_meta_properties,
)
from quorum_node.storage.partition_directory import (
    OpenPartition,
    format_partition,
    is_partition_directory,
    open_partition,
    partition_directory,
)
from quorum_node.storage.replica_identity import read_replica_identity

_FOREIGN = frozenset({"lost+found", FAILURE_MARK})
_FORMATTED_FIRST = frozenset({"partition.metadata", "replica.properties", "quorum-state"})
"""Files that an interrupted format leaves in a partition."""


@dataclass(slots=True)
class OpenDirectory:
    """An opened data directory. `meta` is updated by `remember_cluster_id`."""

    path: Path
    meta: MetaProperties
    partitions: tuple[OpenPartition, ...]
    files: FileSystem = POSIX

    @property
    def first(self) -> OpenPartition:
        """Partition 0, the only one that exists in Kafka."""
        return self.partitions[0]

    def remember_cluster_id(self, cluster_id: str) -> None:
        """Write the discovered cluster id durably. Raises WrongDirectory if the directory has another one."""
        if self.meta.cluster_id == cluster_id:
            return
        check_identity(self.meta, self.path, self.meta.node_id, cluster_id)
        meta = replace(self.meta, cluster_id=cluster_id)
        write_meta_properties(self.path, meta, self.files)
        self.meta = meta


def is_formatted(path: Path, latch: FailureLatch, files: FileSystem = POSIX) -> bool:
    """Whether the directory is formatted. Raises StorageFailure if it was formatted and is lost."""
    if read_meta_properties(path, files) is not None:
        return True
    with storage_errors(f"look into {path}"):
        files.make_directories(path)
        found = sorted(name for name in files.names(path) if name not in _FOREIGN)
        inside = {
            inner
            for name in found
            if is_partition_directory(name)
            for inner in files.names(path / name)
        }
    foreign = [name for name in found if not is_partition_directory(name) and not _is_temp(name)]
    logs = sorted(name for name in inside - _FORMATTED_FIRST if not _is_temp(name))
    if foreign or logs:
        raise StorageFailure(
            f"{path} has no meta.properties but is not empty ({', '.join(foreign + logs)}):"
            " its identity is lost; nothing was changed"
        )
    formatted = latch.formatted_identity()
    if formatted is not None:
        raise StorageFailure(
            f"{path} is empty, but this pod formatted it before as {formatted}: its data is lost. It is not formatted again, because an empty log must not replace the old one"
        )
    return False


def format_directory(path: Path, meta: MetaProperties, files: FileSystem = POSIX) -> None:
    """Format an empty directory for this node. meta.properties is written last and completes the format."""
    for number in range(meta.partitions):
        replica_uuid = meta.directory_id if number == 0 else fresh_uuid()
        format_partition(path, number, replica_uuid, meta.cluster_id, files)
    with storage_errors(f"format {path}"):
        sync_directory(path, files)
        with contextlib.suppress(PermissionError):  # another process has formatted it
            sync_directory(path.parent, files)
    write_meta_properties(path, meta, files)


def open_directory(
    path: Path,
    *,
    node_id: int,
    cluster_id: str | None,
    segment_bytes: int,
    latch: FailureLatch,
    partitions: int = 1,
    files: FileSystem = POSIX,
) -> OpenDirectory:
    """Open a formatted directory.

    Raises WrongDirectory when it is another node's or cluster's, StorageFailure when it is damaged.
    """
    meta = read_meta_properties(path, files)
    assert meta is not None, "open comes after format"
    check_identity(meta, path, node_id, cluster_id)
    if meta.partitions != partitions:
        raise WrongDirectory(
            f"quorum.partitions={partitions}, but {path} was formatted for {meta.partitions}: the number of partitions of an existing quorum can't be changed. Restore the old value"
        )
    with storage_errors(f"open {path}"):
        sync_directory(path, files)
    give_checksum(path, meta, files)
    latch.mark_formatted(identity_text(meta.node_id, meta.directory_id))
    opened = tuple(
        _open_partition(path, number, meta, segment_bytes, files) for number in range(partitions)
    )
    return OpenDirectory(path, meta, opened, files)


def _open_partition(
    path: Path, number: int, meta: MetaProperties, segment_bytes: int, files: FileSystem
) -> OpenPartition:
    replica_uuid = meta.directory_id
    if number > 0:
        replica_uuid = read_replica_identity(partition_directory(path, number), files)
    return open_partition(
        path,
        number,
        replica_uuid,
        cluster_id=meta.cluster_id,
        segment_bytes=segment_bytes,
        files=files,
    )


def identity_text(node_id: int, replica_uuid: UUID) -> str:
    """(id, uuid) for messages."""
    return f"({node_id}, {uuid_text(replica_uuid)})"


def _is_temp(name: str) -> bool:
    return name.endswith(TEMP_SUFFIX)
