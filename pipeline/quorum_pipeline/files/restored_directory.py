"""A node's data directory with a state as its only snapshot, from which a quorum of one voter starts.

Writes it and reads it back with the node's own storage code, so the node will accept it. The old voters are not
included: they belong to the old quorum and might still run.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from crc32c import crc32c

from quorum_node.image.committed import CommittedImage
from quorum_node.records.batches import CorruptBatch
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.metadata_batch import decode_batch
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.storage.errors import DiskFull, StorageFailure, WrongDirectory
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.partition_directory import (
    format_partition,
    open_partition,
    partition_directory,
)
from quorum_node.storage.snapshots import SnapshotStore
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.snapshot_file import SnapshotFile, open_snapshot

_SEGMENT_BYTES = 64 << 20
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FirstVoter:
    """The only voter of the restored quorum; others are added while it runs."""

    id: int
    uuid: UUID
    host: str
    port: int


class Restored(Protocol):
    """A state to restore, from any source."""

    end_offset: int
    epoch: int

    @property
    def id(self) -> SnapshotId:
        """Id of its snapshot."""

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """Yield the bytes of its snapshot. Raises PipelineError if the state can't be a snapshot."""


def write_directory(path: Path, state: Restored, voter: FirstVoter, cluster_id: str) -> Path:
    """Write the directory and verify it; return the snapshot's path. Raises PipelineError, also if the directory is not empty."""
    if path.exists() and any(path.iterdir()):
        raise PipelineError(f"{path} is not empty; use an empty or new directory")
    listener = Endpoint("CONTROLLER", voter.host, voter.port)
    entry = Voter(ReplicaKey(voter.id, voter.uuid), (listener,))
    place = (max(state.end_offset - 1, 0), state.epoch)
    voters = VotersRecord((entry,), cluster_id, 1, log_position=place)
    existed = path.exists()
    try:
        crc = _written(path, state, voter, cluster_id, voters)
        _read_back(path, state, voter, cluster_id, crc)
    except BaseException as error:
        # A node could start on what was not verified.
        _remove_content(path, existed=existed)
        if isinstance(error, StorageFailure | DiskFull | WrongDirectory):
            raise PipelineError(str(error)) from None
        raise
    return partition_directory(path, 0) / state.id.file_name


def _written(
    path: Path, state: Restored, voter: FirstVoter, cluster_id: str, voters: VotersRecord
) -> int:
    """Write the directory; return the CRC-32C of its snapshot."""
    format_partition(path, 0, voter.uuid, cluster_id)
    writer = SnapshotStore(partition_directory(path, 0)).create(state.id)
    crc = 0
    for data in state.snapshot(voters):
        crc = crc32c(data, crc)
        writer.append(data)
    writer.freeze()
    # Without this file the node treats the directory as unformatted.
    write_meta_properties(path, MetaProperties(voter.id, voter.uuid, cluster_id))
    return crc


def _remove_content(path: Path, *, existed: bool) -> None:
    """Remove what was written to a directory that was empty; also the directory, unless it existed before."""
    if not existed:
        shutil.rmtree(path, ignore_errors=True)
        return
    for each in path.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def _read_back(path: Path, state: Restored, voter: FirstVoter, cluster_id: str, crc: int) -> None:
    """Verify the directory: open it as the node does at its start, then replay its records."""
    opened = open_partition(
        path, 0, voter.uuid, cluster_id=cluster_id, segment_bytes=_SEGMENT_BYTES
    )
    opened.log.close()
    file = open_snapshot(partition_directory(path, 0) / state.id.file_name)
    if _crc_of(file.path) != crc:
        raise PipelineError(f"{file.path} was read back and differs from what was written")
    _check_replays(file)
    if file.id.end_offset != opened.log.start_offset:
        raise PipelineError(f"{path} was opened but begins at {opened.log.start_offset}")


def _check_replays(file: SnapshotFile) -> None:
    """Raise PipelineError if the node could not replay the records."""
    image = CommittedImage()
    for position, batch in file.batches():
        if batch.header.is_control:
            continue
        try:
            image.replay(decode_batch(batch))
        except (CorruptBatch, MalformedRecord, ValueError) as error:
            raise PipelineError(f"{file.path}, byte {position}: {error}") from None


def _crc_of(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while data := file.read(_PIECE_BYTES):
            crc = crc32c(data, crc)
    return crc
