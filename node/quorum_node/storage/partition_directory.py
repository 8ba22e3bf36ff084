"""The directory of one quorum partition: format it, open it.

    __cluster_metadata-<n>/quorum-state, leader-epoch-checkpoint, partition.metadata, %020d.log
    __cluster_metadata-<n>/%020d-%010d.checkpoint    snapshots, see snapshots
    __cluster_metadata-<n>/%020d.seal                metadata of a closed segment, see seal
    __cluster_metadata-<n>/synced-end                the synced end of the log, see synced_end
    __cluster_metadata-<n>/replica.properties        n > 0: this replica's UUID

Must not know the directory that contains it (`directory`).
"""

import re
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.storage.atomic_file import sync_directory
from quorum_node.storage.errors import StorageFailure, WrongDirectory, storage_errors
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.log_opening import BeginsBehindNothing
from quorum_node.storage.partition_metadata import ensure_partition_metadata
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.replica_identity import write_replica_identity
from quorum_node.storage.snapshot_opening import CompleteSnapshot, finish_reset, newest_complete
from quorum_node.storage.snapshots import SnapshotStore

_NAME = re.compile(r"__cluster_metadata-\d+")


@dataclass(slots=True)
class OpenPartition:
    """The opened replica of one partition."""

    number: int
    path: Path
    replica_uuid: UUID
    log: SegmentedLog
    state_file: QuorumStateFile
    state: QuorumState
    snapshots: SnapshotStore
    newest: CompleteSnapshot | None
    """The newest snapshot, verified. The log reaches at least to its end."""
    notes: tuple[str, ...] = ()
    """Messages about repairs at open."""


class SnapshotLost(StorageFailure):
    """The log starts after a snapshot, and no undamaged snapshot reaches its start."""

    def __init__(
        self, message: str, number: int, path: Path, base_offset: int, state: QuorumState
    ) -> None:
        super().__init__(message)
        self.number = number
        self.path = path
        self.base_offset = base_offset
        self.state = state


def partition_directory(path: Path, number: int) -> Path:
    """Directory of a partition's files."""
    return path / f"__cluster_metadata-{number}"


def is_partition_directory(name: str) -> bool:
    """Whether a directory of this name belongs to a quorum partition."""
    return _NAME.fullmatch(name) is not None


def format_partition(
    path: Path,
    number: int,
    replica_uuid: UUID,
    cluster_id: str | None,
    files: FileSystem = POSIX,
) -> None:
    """Format an empty directory for this replica. Raises StorageFailure or DiskFull."""
    partition = partition_directory(path, number)
    with storage_errors(f"format {partition}"):
        files.make_directories(partition)
    ensure_partition_metadata(partition, files=files)
    if number > 0:
        write_replica_identity(partition, replica_uuid, files)
    # The quorum-state of an interrupted format has another UUID: it was never used.
    with storage_errors(f"format {partition}"):
        files.unlink(partition / "quorum-state", missing_ok=True)
    QuorumStateFile(partition, replica_uuid, files).save(QuorumState(cluster_id=cluster_id))


def open_partition(
    path: Path,
    number: int,
    replica_uuid: UUID,
    *,
    cluster_id: str | None,
    segment_bytes: int,
    files: FileSystem = POSIX,
) -> OpenPartition:
    """Open a formatted partition.

    Raises WrongDirectory when it is another cluster's or replica's, StorageFailure when damaged.
    """
    partition = partition_directory(path, number)
    # An earlier process may have ended between a rename and the sync that makes it durable.
    with storage_errors(f"open {partition}"):
        sync_directory(partition, files)
    state_file = QuorumStateFile(partition, replica_uuid, files)
    state = state_file.load()
    if state is None:
        raise StorageFailure(f"{partition}/quorum-state is missing: a vote may be lost")
    if None not in (state.cluster_id, cluster_id) and state.cluster_id != cluster_id:
        raise WrongDirectory(
            f"{partition}/quorum-state belongs to cluster.id={state.cluster_id}, but meta.properties"
            f" says {cluster_id}"
        )
    ensure_partition_metadata(partition, files=files)
    snapshots = SnapshotStore(partition, files)
    newest, notes = newest_complete(snapshots)
    try:
        log = SegmentedLog(
            partition,
            segment_bytes=segment_bytes,
            snapshots=snapshots.ids(),
            # Every save of the state is preceded by a sync of the log.
            synced_offset=state.applied_offset,
            files=files,
        )
    except BeginsBehindNothing as error:
        raise SnapshotLost(str(error), number, partition, error.base_offset, state) from error
    last_epoch = log.epoch_before(log.end_offset) or 0
    _check_epoch(partition, max(state.leader_epoch, last_epoch, newest.id.epoch if newest else 0))
    reaches = max(log.end_offset, newest.id.end_offset if newest else 0)
    if reaches < state.applied_offset:
        raise StorageFailure(
            f"the log in {partition} ends at {reaches}, but {state.applied_offset} was"
            " committed and applied: acknowledged records are lost"
        )
    if newest is not None:
        notes += finish_reset(log, newest.id, state.applied_offset)
    return OpenPartition(
        number, partition, replica_uuid, log, state_file, state, snapshots, newest, notes
    )


def _check_epoch(partition: Path, epoch: int) -> None:
    if epoch >= MAX_EPOCH:
        raise WrongDirectory(
            f"{partition} has epoch {epoch}, and the maximum is {MAX_EPOCH}: no leader can be elected in this quorum any more, as epochs can't be lowered. Start a new cluster with its records: quorum-pipeline restore --cluster-id NEW (see docs/how-to/recovery.md)"
        )
