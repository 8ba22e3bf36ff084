"""The data directory of a replica: format it once, open it, refuse what is not this replica's.

Kafka's layout:

    meta.properties
    __cluster_metadata-0/quorum-state, leader-epoch-checkpoint, partition.metadata, %020d.log

Replica UUID of partition 0 == directory.id (K853-01). It is made when an *empty* directory is
formatted and never again: a directory that holds anything without meta.properties is damaged, and
one that this pod formatted before and that is empty now was lost.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import uuid_text
from quorum_node.storage.atomic_file import TEMP_SUFFIX, sync_directory
from quorum_node.storage.errors import StorageFailure, WrongDirectory, storage_errors
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.meta_properties import (
    MetaProperties,
    check_identity,
    read_meta_properties,
    write_meta_properties,
)
from quorum_node.storage.partition_metadata import ensure_partition_metadata
from quorum_node.storage.quorum_state import QuorumStateFile

PARTITION_DIRECTORY = "__cluster_metadata-0"
_FOREIGN = frozenset({"lost+found"})


@dataclass(slots=True)
class OpenDirectory:
    """An opened replica; `meta` follows `remember_cluster_id`."""

    path: Path
    meta: MetaProperties
    log: SegmentedLog
    state_file: QuorumStateFile
    state: QuorumState

    @property
    def partition_path(self) -> Path:
        """Where the log and quorum-state live."""
        return self.path / PARTITION_DIRECTORY

    def remember_cluster_id(self, cluster_id: str) -> None:
        """Write the discovered cluster id durably. Raises WrongDirectory if another one is there."""
        if self.meta.cluster_id == cluster_id:
            return
        check_identity(self.meta, self.path, self.meta.node_id, cluster_id)
        meta = MetaProperties(self.meta.node_id, self.meta.directory_id, cluster_id)
        write_meta_properties(self.path, meta)
        self.meta = meta


def is_formatted(path: Path, latch: FailureLatch) -> bool:
    """Whether the directory was formatted. Raises StorageFailure when it was and is lost."""
    if read_meta_properties(path) is not None:
        return True
    with storage_errors(f"look into {path}"):
        path.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in path.iterdir() if entry.name not in _FOREIGN)
        partition = path / PARTITION_DIRECTORY
        kept = sorted(entry.name for entry in partition.iterdir()) if partition.is_dir() else []
    foreign = [name for name in found if name != PARTITION_DIRECTORY and not _is_temp(name)]
    logs = [name for name in kept if not _is_temp(name) and name != "partition.metadata"]
    if foreign or (logs and logs != ["quorum-state"]):
        raise StorageFailure(
            f"{path} has no meta.properties but is not empty ({', '.join(foreign + logs)}):"
            " its identity is lost; nothing was changed"
        )
    formatted = latch.formatted_identity()
    if formatted is not None:
        raise StorageFailure(
            f"{path} is empty, but this pod formatted it before as {formatted}: its data is lost."
            " It is not formatted again, because an empty log must not pass for the old one"
        )
    return False


def format_directory(path: Path, meta: MetaProperties) -> None:
    """Make an empty directory this replica's; meta.properties comes last and makes it count."""
    partition = path / PARTITION_DIRECTORY
    with storage_errors(f"format {path}"):
        partition.mkdir(parents=True, exist_ok=True)
        sync_directory(path)
    ensure_partition_metadata(partition)
    initial = QuorumState(cluster_id=meta.cluster_id)
    # A quorum-state of a format that was cut short has another UUID: it was never used.
    (partition / "quorum-state").unlink(missing_ok=True)
    QuorumStateFile(partition, meta.directory_id).save(initial)
    write_meta_properties(path, meta)


def open_directory(
    path: Path, *, node_id: int, cluster_id: str | None, segment_bytes: int, latch: FailureLatch
) -> OpenDirectory:
    """Open a formatted directory.

    Raises WrongDirectory when it is another node's or cluster's, StorageFailure when it is damaged.
    """
    meta = read_meta_properties(path)
    assert meta is not None, "open comes after format"
    check_identity(meta, path, node_id, cluster_id)
    partition = path / PARTITION_DIRECTORY
    state_file = QuorumStateFile(partition, meta.directory_id)
    state = state_file.load()
    if state is None:
        raise StorageFailure(f"{partition}/quorum-state is missing: a vote may be lost")
    if None not in (state.cluster_id, meta.cluster_id) and state.cluster_id != meta.cluster_id:
        raise WrongDirectory(
            f"{partition}/quorum-state is of cluster.id={state.cluster_id}, but meta.properties"
            f" says {meta.cluster_id}"
        )
    ensure_partition_metadata(partition)
    latch.mark_formatted(identity_text(meta.node_id, meta.directory_id))
    log = SegmentedLog(partition, segment_bytes=segment_bytes)
    if log.end_offset < state.applied_offset:
        raise StorageFailure(
            f"the log in {partition} ends at {log.end_offset}, but {state.applied_offset} was"
            " committed and applied: acknowledged records are lost"
        )
    return OpenDirectory(path, meta, log, state_file, state)


def identity_text(node_id: int, replica_uuid: UUID) -> str:
    """(id, uuid) for messages."""
    return f"({node_id}, {uuid_text(replica_uuid)})"


def _is_temp(name: str) -> bool:
    return name.endswith(TEMP_SUFFIX)
