"""Outputs of the core, from `Replica.step`, to be executed strictly in order.

Owns the output types. Must not know who executes them. The order is essential for safety: a
PersistQuorumState makes first the log and then the state durable before anything after it is
executed.
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
    """Truncate the log to `end_offset`."""

    end_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class AppendBatch:
    """Append one whole batch to the buffer. It is durable only after a LogFlushed."""

    base_offset: int
    end_offset: int
    leader_epoch: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PersistQuorumState:
    """Flush the log, then save the state. Both have to be durable before the next output."""

    state: QuorumState


@made_often
@dataclass(frozen=True, slots=True)
class FlushLog:
    """Make the log durable in the background; LogFlushed follows. Requests may be coalesced."""


@dataclass(frozen=True, slots=True)
class WriteSnapshotChunk:
    """Write downloaded bytes at `position` of the partial file of `id`, and truncate the file after them.

    Position 0 restarts the file, even if it exists. Nothing has to be durable yet.
    """

    id: SnapshotId
    position: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DropPartialSnapshot:
    """The download of `id` was given up: its partial file can be deleted."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class FinishSnapshot:
    """Verify the partial file as a whole, make it durable, and rename it to its final name.

    In the background; SnapshotInstalled or SnapshotRejected follows. `checksum`: CRC-32C of the
    whole file as sent by the leader; None from a stock leader.
    """

    id: SnapshotId
    size_bytes: int
    checksum: int | None


@dataclass(frozen=True, slots=True)
class ResetLog:
    """Drop the whole log. It starts and ends at the end of this verified, durable snapshot."""

    id: SnapshotId


@dataclass(frozen=True, slots=True)
class DeleteLogPrefix:
    """The log now starts at the end of this verified, durable snapshot."""

    id: SnapshotId


@made_often
@dataclass(frozen=True, slots=True)
class Send:
    """Send a request. ResponseReceived or RequestFailed with this correlation follows within `timeout_ms`."""

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
    """The state after applying records up to `offset` (exclusive) reflects all writes before the request."""

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

    `target`: target voters of an AlterQuorum.
    """

    voters: tuple[Voter, ...]
    position: VotersPosition
    committed: bool
    target: tuple[ReplicaKey, ...] | None = None


@dataclass(frozen=True, slots=True)
class FormationDelayed:
    """A static quorum can't form yet because of this voter."""

    voter: ReplicaKey
    why: str


@dataclass(frozen=True, slots=True)
class AheadOfLeader:
    """This replica has a higher high watermark than the leader's log end: a recovery or a lost
    disk removed committed records.

    The logs agree up to `agreed_offset`; `known_offset` is the replica's high watermark.
    """

    replica: ReplicaKey
    known_offset: int
    agreed_offset: int


@dataclass(frozen=True, slots=True)
class ReplicaWentBack:
    """A replica has fewer records than it acknowledged to this leader: its disk is an older image.

    A truncation, or a late request without answer rounds, looks the same: this alone proves
    nothing.
    """

    replica: ReplicaKey
    acknowledged_offset: int
    offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class CorruptionReported:
    """A replica reports that records from `offset` on arrived damaged.

    They are verified before they are sent again.
    """

    replica: ReplicaKey
    offset: int


@dataclass(frozen=True, slots=True)
class OlderQuorum:
    """A peer still belongs to the quorum before a recovery that this replica has in its log. It is not
    followed.

    `leader`: the leader that it names. `recovered_epoch`: of the recovery that it has not seen.
    """

    leader: CurrentLeader
    recovered_epoch: int


@dataclass(frozen=True, slots=True)
class Superseded:
    """A peer has seen a recovery that this replica has not: this replica belongs to the old quorum."""

    replica: ReplicaKey
    recovered_epoch: int


class HaltReason(Enum):
    """Why the process has to end."""

    SHUTDOWN = "shutdown"
    STORAGE_FAILED = "storage failed"
    DISK_FULL = "disk full"
    OUT_OF_RESOURCES = "out of descriptors or memory"
    IDENTITY_MISMATCH = "identity mismatch"
    CORRUPTION = "the leader's log contradicts committed records"


@dataclass(frozen=True, slots=True)
class Halt:
    """The last output of a replica. Sends before it are best effort."""

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
