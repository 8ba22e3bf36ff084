"""State of a leader, from its election to the end of its epoch.

Owns the data: progress of replicas, parked fetches (answered up to `answered_end_offset`), pending
proposals and reads, the voter change in progress. Must not know the rules that use it (fetch,
commit, reads, membership).
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from quorum_node.made_often import made_often
from quorum_node.raft.messages import FetchRequest, VotersPosition, WentBack
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(slots=True)
class Download:
    """Download of a snapshot by a replica: times of its first and its last request."""

    id: SnapshotId
    started_ms: float
    last_ms: float


@dataclass(slots=True)
class Progress:
    """Progress of one replica, from its fetches. `end_offset`: all records before it are durable
    there (-1: unknown).

    `stock`, `witness`, `went_back` and `damaged_from` as in ReplicaProgress. `counts_from`: first answer round
    whose echo can raise the offset. `doubted`: acknowledged offset before an unconfirmed lower
    fetch. See `acknowledgements.py`.
    """

    key: ReplicaKey
    end_offset: int = -1
    last_fetch_ms: float | None = None
    last_fetch_leader_end: int = 0
    last_caught_up_ms: float | None = None
    answer: int = -1
    stock: bool | None = None
    witness: bool | None = None
    download: Download | None = None
    endpoints: tuple[Endpoint, ...] = ()
    counts_from: int = -1
    doubted: int = -1
    went_back: WentBack | None = None
    damaged_from: int | None = None


@dataclass(slots=True)
class ParkedFetch:
    """A fetch at the end of the log that waits for new data.

    `deadline_ms` may precede the maximum wait of the request. `has_turn`: the deadline is the turn
    of an observer, see `observer_pace.py`.
    """

    request_id: int
    request: FetchRequest
    expires_ms: float
    deadline_ms: float
    has_turn: bool = False


@made_often
@dataclass(frozen=True, slots=True)
class PendingProposal:
    proposal_id: int
    base_offset: int
    end_offset: int


@dataclass(slots=True)
class PendingRead:
    """`offset` is None until a record of the leader's own epoch is committed.

    Requested either by this process (`read_id`) or by another replica (`request_id`, a ReadOffset).
    """

    round: int
    offset: int | None
    read_id: int | None = None
    request_id: int | None = None


class ChangeKind(Enum):
    ADD = "add"
    REMOVE = "remove"
    UPDATE = "update"


class ChangePhase(Enum):
    """Phases of a voter change. An add passes all three; other changes start at COMMITTING."""

    PROBING = "probing the new voter's endpoint"
    CATCHING_UP = "waiting for the new voter to catch up"
    COMMITTING = "waiting for the commit"


@dataclass(slots=True)
class PendingChange:
    """The one voter change in progress. `request_id` None: no request waits for the answer.

    `planned`: a step of an AlterQuorum. `private_features`: our features that the new voter reported when it was probed.
    """

    kind: ChangeKind
    request_id: int | None
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    deadline_ms: float
    phase: ChangePhase
    count_newcomer: bool = False
    ack_when_committed: bool = True
    planned: bool = False
    private_features: int = 0
    probe: int | None = None
    retry_deadline_ms: float = 0.0
    round_target: int = 0
    round_started_ms: float = 0.0
    position: VotersPosition | None = None


@dataclass(slots=True)
class PendingAlteration:
    """An AlterQuorum in progress. `position` None: not written yet."""

    request_id: int | None
    target: tuple[ReplicaKey, ...] | None
    expected: VotersPosition | None
    deadline_ms: float
    position: VotersPosition | None = None


@dataclass(slots=True)
class Handover:
    """Leadership is being given up: no new proposals, EndQuorumEpoch once the log is committed."""

    deadline_ms: float
    request_id: int | None
    successor: ReplicaKey | None


@dataclass(slots=True)
class Leader:
    """Leader of the replica's current epoch, whose first record is at `epoch_start_offset`."""

    epoch_start_offset: int
    check_quorum_deadline_ms: float
    elected_ms: float
    answered_end_offset: int = -1
    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    parked: dict[int, ParkedFetch] = field(default_factory=dict)
    proposals: deque[PendingProposal] = field(default_factory=deque)
    reads: deque[PendingRead] = field(default_factory=deque)
    observer_turn_ms: float = 0.0
    """When the last observer in the queue has its turn."""
    answer_round: int = 0
    round_sent: bool = False
    own_epoch_committed: bool = False
    unendorsed: set[ReplicaKey] = field(default_factory=set)
    begin_deadline_ms: float | None = None
    begin_failures: int = 0
    misled_since_ms: dict[ReplicaKey, float] = field(default_factory=dict)
    """Voters that believe in another leader of this epoch, and since when this is known."""
    change: PendingChange | None = None
    alterations: deque[PendingAlteration] = field(default_factory=deque)
    plan_look_ms: float = 0.0
    plan_failures: dict[ReplicaKey, int] = field(default_factory=dict)
    handover: Handover | None = None
    name: RoleName = field(default=RoleName.LEADER, init=False)

    @property
    def newest_round_sent(self) -> int:
        """The newest answer round that any fetch answer has carried; -1 for none."""
        return self.answer_round if self.round_sent else self.answer_round - 1

    def report_round(self) -> int:
        """The answer round for a fetch answer that is sent now. Later reads need another round."""
        self.round_sent = True
        return self.answer_round

    def await_endorsement(self, keys: Iterable[ReplicaKey], due_ms: float) -> None:
        """Send BeginQuorumEpoch to these replicas at `due_ms` or before, and again until they follow."""
        self.unendorsed.update(keys)
        self.begin_failures = 0
        if self.begin_deadline_ms is None or self.begin_deadline_ms > due_ms:
            self.begin_deadline_ms = due_ms

    def endorsed_by(self, key: ReplicaKey) -> None:
        """The replica follows this leader."""
        self.unendorsed.discard(key)
        self.misled_since_ms.pop(key, None)

    def last_contact_ms(self, key: ReplicaKey) -> float:
        """When another voter last fetched; before its first fetch, the time of the election."""
        progress = self.progress.get(key)
        if progress is None or progress.last_fetch_ms is None:
            return self.elected_ms
        return progress.last_fetch_ms
