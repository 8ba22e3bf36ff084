"""Rewrites a closed replica so that it is the sole voter of its quorum (`quorum-node --recover`).

Owns the order of writes. An interrupted run is completed by the next one, and a node that is
started in between without the option does no harm:
1. One batch is appended to the log, in a new epoch: a leader change and the voters record
with the sole voter. A node started now is not a voter of that set, because of its UUID, and waits.
2. quorum-state gets that epoch, the vote in it and the new replica UUID. A node started now exits,
because the UUID is not that of meta.properties.
3. meta.properties gets the new UUID, which completes the recovery.

Must not know whether a recovery is justified (`server/recovering.py`).
"""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from quorum_node.json_text import read_json
from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import encode_batch
from quorum_node.records.control import LeaderChange, VotersRecord, encode_control
from quorum_node.records.identity import ReplicaKey, parse_uuid
from quorum_node.storage.atomic_file import read_file
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from quorum_node.storage.quorum_state import FILE_NAME, QuorumStateFile

EPOCH_DISTANCE = 1 << 16
"""Added to the epoch: other voters may have held elections unknown to the survivor.

Their records at offsets of new ones must have different epochs, otherwise the divergence would not
be detected.
"""


def append_sole_voter(log: SegmentedLog, epoch: int, record: VotersRecord, now_ms: int) -> None:
    """Step 1; durable when it returns. Raises StorageFailure, DiskFull."""
    (voter,) = record.voters
    change = LeaderChange(voter.key.id, (voter.key,), (voter.key,))
    base = log.end_offset
    data = encode_batch(
        base_offset=base,
        leader_epoch=epoch,
        timestamp_ms=now_ms,
        records=[encode_control(change), encode_control(record)],
        control=True,
    )
    log.append(data, base, base + 2, epoch)
    log.flush()


def save_sole_voter(
    partition: Path,
    state: QuorumState,
    epoch: int,
    voter: ReplicaKey,
    files: FileSystem = POSIX,
) -> None:
    """Step 2. Raises StorageFailure, DiskFull."""
    assert voter.uuid is not None
    voted = replace(
        state,
        leader_epoch=epoch,
        leader_id=NO_LEADER,
        voted=voter,
        target_voters=None,
        formed=True,
    )
    QuorumStateFile(partition, voter.uuid, files).save(voted)


def rename_replica(
    directory: Path, meta: MetaProperties, uuid: UUID, files: FileSystem = POSIX
) -> None:
    """Step 3. Raises StorageFailure, DiskFull."""
    write_meta_properties(directory, replace(meta, directory_id=uuid), files)


def owner_of(partition: Path, files: FileSystem = POSIX) -> UUID | None:
    """The replica UUID in quorum-state; None if the file is missing or unreadable."""
    content = read_file(partition / FILE_NAME, files)
    try:
        return None if content is None else parse_uuid(read_json(content)["replicaUuid"])
    except (ValueError, KeyError, TypeError):
        return None
