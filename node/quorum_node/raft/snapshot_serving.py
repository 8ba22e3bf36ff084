"""FetchSnapshot on the leader: serves parts, and tracks downloads.

Owns the checks of a request and the record of downloads. Must not know bytes or files: a response
names a part of a snapshot, and its executor finds out whether it exists.
Source: KIP-630, "FetchSnapshot". A sender counts as fetching (K595-16, K595-26), but acknowledges
nothing.
"""

from quorum_node.raft.cluster_identity import fetcher_is_member, is_foreign
from quorum_node.raft.errors import RaftError
from quorum_node.raft.fetch_answers import CONSUMER_ID
from quorum_node.raft.fetch_serving import progress_of, yield_to_newer_voter
from quorum_node.raft.leadership import Download, Leader
from quorum_node.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse, SnapshotPart
from quorum_node.raft.outputs import Respond
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.static_quorum import note_sender
from quorum_node.records.snapshot_id import SnapshotId


def handle_fetch_snapshot(
    replica: ReplicaState, request_id: int, request: FetchSnapshotRequest
) -> None:
    """Answer at once, with a part of the snapshot or an error."""
    leader = replica.role
    error = _refusal(replica, request)
    part = None
    if error is None and isinstance(leader, Leader):
        _note_download(replica, leader, request)
        part = SnapshotPart(request.snapshot_id, request.position, request.max_bytes)
    else:
        error = error or RaftError.NOT_QUORUM_LEADER
        yield_to_newer_voter(
            replica, request.cluster_id, request.replica, request.current_leader_epoch
        )
    replica.out.append(
        Respond(
            request_id,
            FetchSnapshotResponse(
                error or RaftError.NONE,
                replica.current_leader(),
                request.snapshot_id,
                position=request.position,
                part=part,
            ),
        )
    )


def downloaded_now(replica: ReplicaState) -> frozenset[SnapshotId]:
    """Snapshots that replicas are downloading from this leader: they must not be deleted now.

    Both the pause between requests and the total time of a download are bounded.
    """
    leader = replica.role
    if not isinstance(leader, Leader):
        return frozenset()
    config, now_ms = replica.config, replica.now_ms
    return frozenset(
        download.id
        for progress in leader.progress.values()
        if (download := progress.download) is not None
        and now_ms - download.last_ms < config.snapshot_download_idle_ms
        and now_ms - download.started_ms < config.snapshot_download_max_ms
    )


def _refusal(replica: ReplicaState, request: FetchSnapshotRequest) -> RaftError | None:
    member = fetcher_is_member(replica, request.replica, 0)
    if is_foreign(replica, request.cluster_id, member=member):
        return RaftError.INVALID_CLUSTER_ID
    if request.current_leader_epoch < replica.epoch:
        return RaftError.FENCED_LEADER_EPOCH
    if request.current_leader_epoch > replica.epoch:
        return RaftError.UNKNOWN_LEADER_EPOCH
    if replica.halted or not isinstance(replica.role, Leader):
        return RaftError.NOT_QUORUM_LEADER
    if replica.snapshot is None or request.snapshot_id > replica.snapshot:
        return RaftError.SNAPSHOT_NOT_FOUND
    if request.position < 0:
        return RaftError.POSITION_OUT_OF_RANGE
    return None


def _note_download(replica: ReplicaState, leader: Leader, request: FetchSnapshotRequest) -> None:
    if request.replica.id == CONSUMER_ID:
        return
    note_sender(replica, request.replica)
    progress = progress_of(replica, leader, request.replica)
    if progress is None:
        return
    now_ms = replica.now_ms
    progress.last_fetch_ms = now_ms
    leader.endorsed_by(request.replica)
    download = progress.download
    if download is None or download.id != request.snapshot_id:
        progress.download = Download(request.snapshot_id, now_ms, now_ms)
    else:
        download.last_ms = now_ms
