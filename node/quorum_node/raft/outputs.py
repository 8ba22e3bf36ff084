"""What a replica wants done: the output of `Replica.step`, to be executed strictly in order.

Owns the output types. Must not know who executes them. The order is what makes it safe: a
PersistQuorumState makes the log and then the state durable before anything behind it is done.
"""

from dataclasses import dataclass
from enum import Enum

from quorum_node.made_often import made_often
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import CurrentLeader, OutboundRequest, Response, VotersPosition
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.raft.roles import CorruptFetch, RoleName
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class TruncateLog:
    """Drop everything from `end_offset` on."""

    end_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class AppendBatch:
    """One whole batch, buffered: not durable before a LogFlushed says so."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PersistQuorumState:
    """Flush the log, then save the state, both durably, before the next output."""

    state: QuorumState


@made_often
@dataclass(frozen=True, slots=True)
class FlushLog:
    """Make the log durable in the background; LogFlushed follows. Requests may be coalesced."""


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Write downloaded bytes at `position` of the partial file of `id`, and cut it off behind them.

    Position 0 begins anew, also when a partial file of that id exists. Nothing has to be durable yet.
    """

    id: SnapshotId
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DropPartialSnapshot:
    """The download of `id` is given up: its partial file can go."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class FinishSnapshot:
    """Verify the partial file as a whole, make it durable, give it its name.

    In the background; SnapshotInstalled or SnapshotRejected follows. `checksum`: CRC-32C of the whole
    file as the leader told it; None when it told none (a stock one).
    """

    id: SnapshotId
    size_bytes: int
    checksum: int | None


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Drop the whole log; it starts and ends at the end of this verified, durable snapshot."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class DeleteLogPrefix:
    """The log starts at the end of this verified, durable snapshot from now on."""

    id: SnapshotId


@made_often
@dataclass(frozen=True, slots=True)
class Send:
    """ResponseReceived or RequestFailed with this correlation follows, within `timeout_ms`."""

    correlation: int
    destination: Endpoint
    request: OutboundRequest
    timeout_ms: float


@made_often
@dataclass(frozen=True, slots=True)
class Respond:
    """A FetchResponse with a `range` gets its `records` read from the log by the driver.

    A FetchSnapshotResponse with a `part` gets `data`, `size_bytes` and `checksum` from the snapshot,
    or becomes SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE.
    """

    request_id: int
    response: Response


@made_often
@dataclass(frozen=True, slots=True)
class ProposalCommitted:
    proposal_id: int
    base_offset: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class ProposalFailed:
    """LEADERSHIP_LOST and STORAGE_FAILED after the append: the outcome is unknown."""

    proposal_id: int
    error: RaftError


@dataclass(frozen=True, slots=True)
class ReadConfirmed:
    """State applied up to `offset` (exclusive) is not older than the request."""

    read_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    read_id: int
    error: RaftError


@made_often
@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Everything before `offset` is committed."""

    offset: int


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """`is_voter` False: an observer, whatever the role. `leader_id` -1: unknown."""

    role: RoleName
    leader_epoch: int
    leader_id: int
    is_voter: bool


@dataclass(frozen=True, slots=True)
class VotersChanged:
    """The latest voters record of the log changed (append, commit, or revert by truncation).

    `target`: where an AlterQuorum is heading.
    """

    voters: tuple[Voter, ...]
    position: VotersPosition
    committed: bool
    target: tuple[ReplicaKey, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormationDelayed:
    """A static quorum can't form yet: what is wrong with that voter."""

    voter: ReplicaKey
    why: str


@dataclass(frozen=True, slots=True)
class AheadOfLeader:
    """A replica knows more to be committed than this leader has: a recovery, or a lost disk, took that away.

    The logs agree up to `agreed_offset`; `known_offset` is the replica's high watermark.
    """

    replica: ReplicaKey
    known_offset: int
    agreed_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaWentBack:
    """A replica has less than it acknowledged to this leader: it came back with an older image of its disk.

    A truncation or, without echoed rounds, a late request looks alike: this alone condemns nobody.
    """

    replica: ReplicaKey
    acknowledged_offset: int
    offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class CorruptionReported:
    """A replica says that what this leader sent from `offset` on is damaged; it is checked before it is sent again."""

    replica: ReplicaKey
    offset: int


@dataclass(frozen=True, slots=True)
class OlderQuorum:
    """Somebody still belongs to the quorum from before a recovery that this replica knows of: it is not followed.

    `leader`: whom it names. `recovered_epoch`: of the recovery that it has not seen.
    """

    leader: CurrentLeader
    recovered_epoch: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """A replica has seen a recovery that this one has not: this leader, or voter, belongs to the older quorum."""

    replica: ReplicaKey
    recovered_epoch: int


class HaltReason(Enum):
    """Why the process has to end."""

    SHUTDOWN = "shutdown"
    STORAGE_FAILED = "storage failed"
    DISK_FULL = "disk full"
    IDENTITY_MISMATCH = "identity mismatch"
    CORRUPTION = "the leader's log contradicts committed records"


@dataclass(frozen=True, slots=True)
class Halt:
    """The last output of a replica; sends before it are best effort."""

    reason: HaltReason
    detail: str
    key: ReplicaKey


Output = (
    TruncateLog
    | AppendBatch
    | PersistQuorumState
    | FlushLog
    | WriteSnapshotChunk
    | DropPartialSnapshot
    | FinishSnapshot
    | ResetLog
    | DeleteLogPrefix
    | Send
    | Respond
    | ProposalCommitted
    | ProposalFailed
    | ReadConfirmed
    | ReadFailed
    | HighWatermarkAdvanced
    | RoleChanged
    | VotersChanged
    | FormationDelayed
    | AheadOfLeader
    | ReplicaWentBack
    | CorruptFetch
    | OlderQuorum
    | Superseded
    | CorruptionReported
    | Halt
)
