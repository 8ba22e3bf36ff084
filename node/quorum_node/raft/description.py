"""A snapshot of a replica for people, metrics and the admin API.

Owns its shape. Must not know how it is served. Times are of the core's clock, in milliseconds.
"""

from dataclasses import dataclass

from quorum_node.raft.messages import KeepingUp, ReplicaProgress, VotersPosition
from quorum_node.raft.roles import CorruptFetch, RoleName
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """`voters_progress`/`observers_progress` are empty except on the leader.

    `last_leader_contact_ms`: last successful fetch answer from the leader (a follower's own view).
    `own_epoch_committed`: the leader has committed a record of its epoch.
    `witness`: this replica never campaigns. `refused_shorter`: who asked for its vote with a shorter
    log, since a leader last answered.
    `snapshot`: the newest of this replica. `partial_snapshot`: a download (id, bytes here, size if known).
    `keeping_up`: what the leader said in its last answer, if this is an observer.
    `as_of_ms`: nothing that the known leader had committed by then is missing here.
    `target_voters`: where an AlterQuorum is heading, None without one; `plan`: what the leader does
    about it, or waits for, in words.
    `corrupt_fetch`: what the leader sent last can't be appended, and is asked for again.
    `pending_change`: a voter change runs on this leader, or the latest voters record is uncommitted.
    """

    key: ReplicaKey
    role: RoleName
    is_voter: bool
    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    leader_key: ReplicaKey | None
    leader_endpoint: Endpoint | None
    voted: ReplicaKey | None
    log_start_offset: int
    log_end_offset: int
    durable_end_offset: int
    high_watermark: int
    leader_high_watermark: int
    last_leader_contact_ms: float | None
    voters: tuple[Voter, ...]
    voters_position: VotersPosition
    voters_committed: bool
    committed_voters: tuple[Voter, ...]
    committed_voters_position: VotersPosition
    pending_change: bool
    own_epoch_committed: bool
    formed: bool
    initial_voters: int
    as_of_ms: float | None
    keeping_up: KeepingUp | None
    disk_low: bool
    halted: bool
    log_end_epoch: int
    witness: bool = False
    refused_shorter: ReplicaKey | None = None
    snapshot: SnapshotId | None = None
    partial_snapshot: tuple[SnapshotId, int, int | None] | None = None
    voters_progress: tuple[ReplicaProgress, ...] = ()
    observers_progress: tuple[ReplicaProgress, ...] = ()
    target_voters: tuple[ReplicaKey, ...] | None = None
    plan: str = ""
    corrupt_fetch: CorruptFetch | None = None
    recovered_epoch: int = 0
