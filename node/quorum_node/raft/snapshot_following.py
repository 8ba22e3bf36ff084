"""FetchSnapshot on the receiver: download, verify, and restart the log at the end of a snapshot.

Owns the steps of a download and the effects of an installed snapshot. Must not know bytes or files.
Source: KIP-630, "Follower and Observer"; KIP-853 (the voters of the snapshot are the committed
ones).

1. A fetch is answered with a snapshot id: the log can't serve this replica.
2. Parts are fetched in order and written to a partial file. An interrupted download continues where
it ended, also after a restart, and also if there is a newer snapshot by then. After a change of the
leader a Fetch comes first: the new leader may have the same snapshot, another one, or the log
itself.
3. Parts of two leaders belong to one snapshot only if both reported the same size and checksum. A
stock leader sends no checksum: then the download restarts with each leader.
4. The whole file is verified in the background. Meanwhile fetches keep the link to the leader open.
Records that contradict the snapshot are not taken before that is over. They are those of a quorum that
was recovered without it: otherwise the older quorum's snapshot would replace them in the end.
5. Only then the log is dropped and restarts at the end of the snapshot. Its whole content is
committed.
"""

from collections.abc import Sequence

from quorum_node.raft import election
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.raft.following import (
    follower_of,
    is_of_leader,
    leader_is_alive,
    no_answer,
    refused,
    retry,
)
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse
from quorum_node.raft.outputs import (
    DeleteLogPrefix,
    DropPartialSnapshot,
    FinishSnapshot,
    HaltReason,
    HighWatermarkAdvanced,
    ResetLog,
    WriteSnapshotChunk,
)
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower, Prospective
from quorum_node.raft.unfinished import Partial
from quorum_node.raft.voters import snapshot_entry
from quorum_node.records.batches import Batch, decode_records
from quorum_node.records.control import VotersRecord, decode_control
from quorum_node.records.snapshot_id import SnapshotId

_LEAST_PART_BYTES = 64 * 1024
_STARTED_OVER = (RaftError.SNAPSHOT_NOT_FOUND, RaftError.POSITION_OUT_OF_RANGE)


def begin(replica: ReplicaState, follower: Follower, id: SnapshotId, log_start_offset: int) -> None:
    """The leader's response to a Fetch named a snapshot, and the start of the leader's log."""
    if id.end_offset <= replica.high_watermark:
        detail = f"the leader of epoch {replica.epoch} requires snapshot {id}, but this replica knows a high watermark of {replica.high_watermark}"
        replica.halt(HaltReason.CORRUPTION, detail)
        return
    if not 0 <= id.epoch <= replica.epoch:
        retry(replica, follower)
        return
    partial = replica.partial
    if partial is not None and partial.finishing:
        await_verification(replica, follower)
        return
    if partial is None or (
        partial.id != id and not _still_of_use(replica, partial, id, log_start_offset)
    ):
        drop(replica)
        replica.partial = Partial(id, replica.config.snapshot_part_bytes)
    follower.downloading = True


def await_verification(replica: ReplicaState, follower: Follower) -> None:
    """Fetch again soon enough to keep the link to the leader open; the end of the verification comes first, as a rule."""
    follower.retry_deadline_ms = replica.now_ms + replica.config.fetch_timeout_ms / 4


def is_contradicted(replica: ReplicaState, batches: Sequence[Batch]) -> bool:
    """Whether a leader has other records than the ones that a snapshot under verification replaces.

    The snapshot can't be given up any more: its file may be complete already, and a restart would
    use it.
    """
    partial = replica.partial
    if partial is None or not partial.finishing:
        return False
    end_offset, epoch = partial.id.end_offset, partial.id.epoch
    return any(
        replica.log_end <= batch.header.base_offset < end_offset
        and (batch.header.leader_epoch > epoch or _has_new_recovery(replica, batch))
        for batch in batches
    )


def request_part(replica: ReplicaState, follower: Follower, partial: Partial) -> None:
    """Ask for the next part."""
    follower.fetching = replica.send(
        follower.endpoint,
        FetchSnapshotRequest(
            replica.reported_cluster_id,
            replica.key,
            replica.epoch,
            partial.id,
            partial.position,
            partial.part_bytes,
        ),
        None,
    )


def handle_part(replica: ReplicaState, correlation: int, response: FetchSnapshotResponse) -> None:
    """The response to `request_part`."""
    follower, partial = follower_of(replica, correlation), replica.partial
    if follower is None:
        return
    follower.fetching = None
    if not is_of_leader(replica, follower, response.leader):
        refused(replica, follower, response.error, response.leader)
        return
    if response.error in _STARTED_OVER:
        # The leader deleted it meanwhile, or has another one: the response to the next Fetch
        # decides.
        leader_is_alive(replica, follower)
        drop(replica)
        follower.downloading = False
        retry(replica, follower)
        return
    if response.error is not RaftError.NONE:
        refused(replica, follower, response.error, response.leader)
        return
    leader_is_alive(replica, follower)
    if partial is None or partial.finishing:
        follower.downloading = False
    elif _fits(replica, follower, partial, response):
        _take(replica, partial, response)
    else:
        retry(replica, follower)


def part_failed(replica: ReplicaState, correlation: int, reason: FailureReason) -> None:
    """No response. A part that takes longer than the request timeout was too large."""
    partial = replica.partial
    if reason is FailureReason.TIMEOUT and partial is not None:
        smaller = max(_LEAST_PART_BYTES, partial.part_bytes // 2)
        partial.part_bytes = min(partial.part_bytes, smaller)
    no_answer(replica, correlation, reason)


def drop(replica: ReplicaState) -> None:
    """Give up a download that is not being verified yet."""
    partial = replica.partial
    if partial is not None and not partial.finishing:
        replica.partial = None
        replica.out.append(DropPartialSnapshot(partial.id))


def installed(
    replica: ReplicaState, id: SnapshotId, voters: VotersRecord | None, kraft_version: int
) -> None:
    """A downloaded snapshot is verified and durable."""
    _finished(replica, id)
    if replica.snapshot is not None and id <= replica.snapshot:
        return
    replica.has_snapshot(id)
    if _log_holds(replica, id):
        # In the meantime the log was fetched up to here.
        if not isinstance(replica.role, Leader) and id.end_offset > replica.high_watermark:
            replica.is_committed(id.end_offset)
            replica.out.append(HighWatermarkAdvanced(id.end_offset))
            replica.commit_voters()
        return
    _begin_behind(replica, id, voters, kraft_version)


def rejected(replica: ReplicaState, id: SnapshotId) -> None:
    """A downloaded snapshot is damaged: download it again, from its beginning, after a delay."""
    _finished(replica, id)
    if isinstance(replica.role, Follower) and replica.role.fetching is None:
        retry(replica, replica.role)


def created(replica: ReplicaState, id: SnapshotId) -> None:
    """This replica wrote a snapshot of its own state."""
    if replica.snapshot is not None and id <= replica.snapshot:
        return  # a downloaded snapshot is newer
    assert id.end_offset <= replica.high_watermark, f"snapshot {id} of what is not committed"
    assert _log_holds(replica, id), f"snapshot {id} is not of this log"
    replica.has_snapshot(id)
    if replica.partial is not None and replica.partial.id <= id:
        drop(replica)  # the log reached the end of the snapshot by fetching


def prefix_obsolete(replica: ReplicaState, id: SnapshotId) -> None:
    """Let the log start at `id` if this loses nothing: all records before it are durable in the snapshot."""
    if replica.snapshot is None or id > replica.snapshot:
        return
    if (
        not replica.start.end_offset
        < id.end_offset
        <= min(replica.high_watermark, replica.durable_end)
    ):
        return
    assert _log_holds(replica, id), f"snapshot {id} is not of this log"
    replica.note_log_start(id)
    replica.out.append(DeleteLogPrefix(id))


def _still_of_use(
    replica: ReplicaState, partial: Partial, id: SnapshotId, log_start_offset: int
) -> bool:
    """Whether to continue the download of an older snapshot: the leader still has the log after it.

    On a bad connection there may be a newer snapshot after every interruption. If the leader has
    deleted the older one it reports that, and the newer one is downloaded.
    """
    end_offset = partial.id.end_offset
    if partial.position == 0 or end_offset <= replica.high_watermark:
        return False
    return log_start_offset <= end_offset < id.end_offset


def _fits(
    replica: ReplicaState, follower: Follower, partial: Partial, response: FetchSnapshotResponse
) -> bool:
    """Whether a part can be appended. If it belongs to another file, restart the download."""
    if response.snapshot_id != partial.id or response.position != partial.position:
        return False
    end = response.position + len(response.data)
    if not response.data or end > response.size_bytes:
        return False
    source = (follower.leader_id, replica.epoch)
    if partial.position > 0:
        same = partial.size_bytes in (None, response.size_bytes)
        if response.checksum is None:
            same = same and partial.source == source
        else:
            same = same and partial.checksum in (None, response.checksum)
        if not same:
            partial.restart()
            return False
    partial.source = source
    partial.size_bytes, partial.checksum = response.size_bytes, response.checksum
    return True


def _take(replica: ReplicaState, partial: Partial, response: FetchSnapshotResponse) -> None:
    replica.out.append(WriteSnapshotChunk(partial.id, partial.position, response.data))
    partial.position += len(response.data)
    partial.part_bytes = min(replica.config.snapshot_part_bytes, partial.part_bytes * 2)
    if partial.position == response.size_bytes:
        partial.finishing = True
        replica.out.append(FinishSnapshot(partial.id, response.size_bytes, partial.checksum))


def _finished(replica: ReplicaState, id: SnapshotId) -> None:
    if replica.partial is not None and replica.partial.id == id:
        replica.partial = None
    role = replica.role
    follower = role.fallback if isinstance(role, Prospective) else role
    if isinstance(follower, Follower):
        follower.downloading = False
        follower.retry_deadline_ms = None
        # The response to a fetch from the old offset does not apply to the new one.
        follower.fetching = None


def _has_new_recovery(replica: ReplicaState, batch: Batch) -> bool:
    if not batch.header.is_control:
        return False
    controls = (decode_control(record) for record in decode_records(batch))
    return any(
        isinstance(each, VotersRecord) and each.recovered_epoch > replica.recovered_epoch
        for each in controls
    )


def _log_holds(replica: ReplicaState, id: SnapshotId) -> bool:
    """Whether the log contains the last record of the snapshot, and so all records before it."""
    return (
        replica.start.end_offset <= id.end_offset <= replica.log_end
        and replica.epochs.epoch_at(id.end_offset - 1) == id.epoch
    )


def _begin_behind(
    replica: ReplicaState, id: SnapshotId, voters: VotersRecord | None, kraft_version: int
) -> None:
    """Restart the log at the end of the snapshot.

    It contained no committed record that the snapshot lacks.
    """
    assert not isinstance(replica.role, Leader), "a leader lacks committed records"
    assert id.end_offset > replica.high_watermark, f"snapshot {id} is older than the log"
    replica.out.append(ResetLog(id))
    replica.note_reset(id)
    if voters is not None:
        replica.uses_kraft_version(kraft_version)
    replica.voters.reset(snapshot_entry(id, voters) if voters is not None else None)
    replica.voters_are_committed(replica.voters.committed)
    replica.out.append(HighWatermarkAdvanced(id.end_offset))
    replica.persist()
    replica.emit_voters_changed()
    election.voters_changed(replica)
