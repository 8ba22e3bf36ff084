"""Description of a replica for the admin API, metrics and `quorumctl`.

Owns its fields. Must not know how it is served. Times are those of the core's clock, in
milliseconds.
"""

from dataclasses import dataclass

from quorum_node.raft.messages import KeepingUp, ReplicaProgress, VotersPosition
from quorum_node.raft.roles import CorruptFetch, RoleName
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class ReplicaDescription:
    """Fields that need an explanation:

    `voters_progress`, `observers_progress`: empty except on the leader.
    `last_leader_contact_ms`: last successful fetch response of the leader (a follower's own view).
    `own_epoch_committed`: the leader has committed a record of its epoch.
    `witness`: this replica never starts an election.
    `refused_shorter`: candidates that this replica refused since the last contact with a leader,
    because their logs are less up to date.
    `snapshot`: the newest snapshot. `partial_snapshot`: a download in progress (id, bytes received,
    size if known).
    `keeping_up`: on an observer, what the leader reported in its last response.
    `as_of_ms`: this replica has everything that the known leader had committed at that time.
    `target_voters`: target of an AlterQuorum in progress, else None. `plan`: text that states the
    leader's next step towards it, or what it waits for.
    `corrupt_fetch`: the last records of the leader can't be appended and are fetched again.
    `pending_change`: a voter change is in progress on this leader, or the latest voters record is
    uncommitted.
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
