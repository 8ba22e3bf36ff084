"""Requests and responses of one partition, as the core speaks them.

Owns their shapes. Must not know bytes, versions, topics or batches of partitions: `server/wire/`
translates both ways. Offsets named `*_end_offset` are exclusive. Epoch 0 is the epoch of an empty log.
Every response carries the responder's view of the current leader (KIP-595, "common attributes").
"""

from dataclasses import dataclass

from quorum_node.made_often import made_often
from quorum_node.raft.endpoint_gossip import HeardEndpoint
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId

NO_LEADER = -1
STOCK_SENDER = -2
"""`answer` of a Fetch that says nothing of rounds: its sender is stock Kafka."""


@made_often
@dataclass(frozen=True, slots=True)
class CurrentLeader:
    """Leader id (NO_LEADER if unknown), leader epoch, and the leader's controller endpoint if known.

    `recovered_epoch`: that of the responder's voters record (-1: not told); see `seen_recoveries.py`.
    """

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None = None
    recovered_epoch: int = -1


@dataclass(frozen=True, slots=True)
class VotersPosition:
    """Where a voters record stands in the log; identifies a voter set for compare-and-set."""

    offset: int
    epoch: int


# Vote: KIP-595 "Vote", KIP-853 (keys), KIP-650 (pre-vote)
@dataclass(frozen=True, slots=True)
class VoteRequest:
    """`voter` is the key asked (None before v1). A pre-vote carries the sender's current epoch.

    `static_voters`: ids of a static quorum whose UUIDs the candidate does not know yet.
    `recovered_epoch`: that of the candidate's log (-1: not told); see `seen_recoveries.py`.
    """

    cluster_id: str | None
    candidate: ReplicaKey
    candidate_epoch: int
    last_epoch: int
    last_epoch_end_offset: int
    voter: ReplicaKey | None = None
    pre_vote: bool = False
    static_voters: tuple[int, ...] = ()
    recovered_epoch: int = -1


@dataclass(frozen=True, slots=True)
class VoteResponse:
    error: RaftError
    leader: CurrentLeader
    vote_granted: bool = False


# BeginQuorumEpoch
@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """`leader_endpoint` is the leader's controller listener (None before v1). `recovered_epoch` as in a Vote."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    voter: ReplicaKey | None = None
    leader_endpoint: Endpoint | None = None
    recovered_epoch: int = -1


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochResponse:
    error: RaftError
    leader: CurrentLeader


# EndQuorumEpoch
@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """`preferred_successors`: best first; a UUID of None where the version carries ids only."""

    cluster_id: str | None
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[ReplicaKey, ...]
    leader_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class EndQuorumEpochResponse:
    error: RaftError
    leader: CurrentLeader


# Fetch
@made_often
@dataclass(frozen=True, slots=True)
class FetchRequest:
    """`fetch_offset` is also the acknowledgement: all before it is durable on the sender.

    `replica.id` is -1 for a plain consumer, which is served up to the high watermark.
    `answer` echoes the round of the last answer that the sender processed from this leader in this
    epoch (-1: none), which is what confirms linearizable reads; STOCK_SENDER where the sender has never
    heard of rounds. `high_watermark` is what the sender knows (-1: not said). `witness`: the sender
    never campaigns. `endpoints`: where an observer listens, told until the leader has answered.
    `corrupt`: what came last from this offset could not be appended, as its bytes are damaged.
    `recovered_epoch`: that of the sender's voters record; if it has one the responder tells its own.
    """

    cluster_id: str | None
    replica: ReplicaKey
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int = 500
    max_bytes: int = 8 * 1024 * 1024
    high_watermark: int = -1
    answer: int = -1
    witness: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    corrupt: bool = False
    recovered_epoch: int = 0


@dataclass(frozen=True, slots=True)
class DivergingEpoch:
    """The sender's log differs: largest epoch on the leader at or below the sender's, and its end."""

    epoch: int
    end_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class RecordsRange:
    """Raw bytes to be read from the log: whole batches from start_offset, ending by limit_offset.

    `checked`: from the disk itself, and every checksum is looked at before they leave.
    """

    start_offset: int
    limit_offset: int
    max_bytes: int
    checked: bool = False


@dataclass(frozen=True, slots=True)
class KeepingUp:
    """What a leader tells an observer of how well it keeps up (KIP-595, "Log Compaction").

    `caught_up_age_ms`: how long ago it had everything that the leader had. `dirty_offset`: where the
    leader's newest snapshot ends (0: it has none); who has reached it lacks nothing of what the
    snapshot stands for.
    """

    caught_up_age_ms: int
    dirty_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class FetchResponse:
    """Leader side: `range` is set when there is data. Follower side: `records` holds the bytes.

    With `diverging` set the error is OFFSET_OUT_OF_RANGE (as the draft says); the shipped wire sends
    NONE and a DivergingEpoch. NOT_FOLLOWER carries data like NONE does: on the shipped wire it is
    NONE, and the data holds the voters record that removed the sender. With `snapshot_id` set the
    error is OFFSET_OUT_OF_RANGE too (NONE on the wire): the log can't serve the sender, it has to
    fetch that snapshot. `keeping_up` is told to observers.
    """

    error: RaftError
    leader: CurrentLeader
    high_watermark: int = -1
    log_start_offset: int = 0
    diverging: DivergingEpoch | None = None
    range: RecordsRange | None = None
    records: bytes = b""
    answer: int = -1
    snapshot_id: SnapshotId | None = None
    keeping_up: KeepingUp | None = None


# FetchSnapshot: KIP-630
@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """Bytes of a snapshot from `position` on. It acknowledges nothing, but the sender is alive."""

    cluster_id: str | None
    replica: ReplicaKey
    current_leader_epoch: int
    snapshot_id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """Raw bytes to be read from a snapshot; they may begin and end in the middle of a batch."""

    id: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse:
    """Leader side: `part` is set when there is something to read. Follower side: `data` holds the bytes.

    `size_bytes` and `checksum` (CRC-32C; None from a stock leader) are of the whole snapshot: parts
    that two leaders gave belong together only if these are the same.
    """

    error: RaftError
    leader: CurrentLeader
    snapshot_id: SnapshotId
    size_bytes: int = 0
    position: int = 0
    data: bytes = b""
    checksum: int | None = None
    part: SnapshotPart | None = None


# DescribeQuorum
@dataclass(frozen=True, slots=True)
class DescribeQuorumRequest:
    pass


@dataclass(frozen=True, slots=True)
class WentBack:
    """A replica fetched from `offset`, though it had acknowledged everything before `acknowledged_offset`.

    `at_ms`: when that was noticed, by the core's clock.
    """

    acknowledged_offset: int
    offset: int
    at_ms: float


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """A replica as the leader sees it. Times are of the core's clock; None: never (in this epoch).

    `stock`: a process of stock Kafka, which knows nothing of our private fields; `witness`: it never
    campaigns. None: it has not fetched in this epoch. `went_back`: the last time in this epoch that it came
    back with less than it had acknowledged.
    """

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    log_end_offset: int
    last_fetch_ms: float | None
    last_caught_up_ms: float | None
    fetching: bool
    caught_up: bool
    stock: bool | None = None
    witness: bool | None = None
    went_back: WentBack | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorumResponse:
    """On NOT_QUORUM_LEADER everything but `leader` is empty."""

    error: RaftError
    leader: CurrentLeader
    high_watermark: int = -1
    voters: tuple[ReplicaProgress, ...] = ()
    observers: tuple[ReplicaProgress, ...] = ()
    target_voters: tuple[ReplicaProgress, ...] | None = None


# ReadOffset: KIP-650
@dataclass(frozen=True, slots=True)
class ReadOffsetRequest:
    """Up to where must be applied for a linearizable read that began before this request?

    `read_timestamp_ms`: wall clock of the asking node, for people only. `stale`: no confirmation, but
    at once what the asked replica has, whatever its role, and how old that may be.
    """

    cluster_id: str | None
    read_timestamp_ms: int = -1
    stale: bool = False


@dataclass(frozen=True, slots=True)
class ReadOffsetResponse:
    """`offset` is -1 with any error. `age_ms` belongs to a stale answer (-1: unknown)."""

    error: RaftError
    leader: CurrentLeader
    offset: int = -1
    age_ms: int = -1


# DiscoverBrokers: KIP-595
@dataclass(frozen=True, slots=True)
class DiscoverBrokersRequest:
    """`replica.id` -1: a client; the other fields mean nothing then. A UUID of None: not told."""

    replica: ReplicaKey
    boot_timestamp_ms: int = -1
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class DiscoverBrokersResponse:
    """`brokers`: every voter that the responder knows, itself included."""

    error: RaftError
    leader: CurrentLeader
    cluster_id: str | None = None
    brokers: tuple[HeardEndpoint, ...] = ()


# Membership: KIP-853
@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """`expected`: position of the committed voters record the caller has seen (compare-and-set).

    `count_newcomer`: the draft's order for a failed disk (add first): the newcomer, caught up, counts
    as alive in the safety check. Without it the newcomer counts as dead. `ack_when_committed` False is
    what a replica says that joins by itself (KIP-1186): the answer follows the append, and a tombstone
    of its key forbids it.
    """

    cluster_id: str | None
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout_ms: int
    expected: VotersPosition | None = None
    count_newcomer: bool = False
    ack_when_committed: bool = True


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    cluster_id: str | None
    voter: ReplicaKey
    timeout_ms: int
    expected: VotersPosition | None = None


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """New endpoints of a voter, by itself; or `by_operator`, an authorized person who repairs its entry.

    `current_leader_epoch` is that of the leader that the voter follows; an operator need not say it.
    """

    cluster_id: str | None
    voter: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    timeout_ms: int
    current_leader_epoch: int = -1
    min_kraft_version: int = 0
    max_kraft_version: int = 1
    expected: VotersPosition | None = None
    by_operator: bool = False


# KIP-595, "AlterQuorum"
@dataclass(frozen=True, slots=True)
class AlterQuorumRequest:
    """`target`: the wanted voters, a UUID of None for whatever replica has that id; None: cancel."""

    cluster_id: str | None
    target: tuple[ReplicaKey, ...] | None
    timeout_ms: int
    expected: VotersPosition | None = None


@dataclass(frozen=True, slots=True)
class VoterChangeResponse:
    """Answer to all four. On success `position` is the committed record of the new voter set."""

    error: RaftError
    leader: CurrentLeader
    message: str = ""
    position: VotersPosition | None = None


@dataclass(frozen=True, slots=True)
class ResignRequest:
    """Admin: the leader hands leadership over, to `successor` if given, else to the best voter."""

    successor: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class ResignResponse:
    """Sent when leadership was handed over (EndQuorumEpoch is on its way)."""

    error: RaftError
    leader: CurrentLeader
    message: str = ""


# Probe of a newcomer's endpoint before it becomes a voter
@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    pass


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    """Range of kraft.version, and our own features, that the node at that endpoint supports."""

    error: RaftError
    min_kraft_version: int
    max_kraft_version: int
    private_features: int = 0


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | DescribeQuorumRequest
    | DiscoverBrokersRequest
    | ReadOffsetRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | AlterQuorumRequest
    | ResignRequest
)
"""What a replica may receive. (ApiVersions is answered by the server itself.)"""

Response = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | DescribeQuorumResponse
    | DiscoverBrokersResponse
    | ReadOffsetResponse
    | VoterChangeResponse
    | ResignResponse
)
"""What a replica answers."""

OutboundRequest = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | ReadOffsetRequest
    | DiscoverBrokersRequest
    | AddVoterRequest
    | UpdateVoterRequest
    | ApiVersionsRequest
)
"""What a replica sends by itself."""

InboundResponse = (
    VoteResponse
    | BeginQuorumEpochResponse
    | EndQuorumEpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | ReadOffsetResponse
    | DiscoverBrokersResponse
    | VoterChangeResponse
    | ApiVersionsResponse
)
"""What a replica may receive as the answer to an OutboundRequest."""


def voter_entry(key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> Voter:
    """A voter of this software: kraft.version 0 to 1."""
    return Voter(key, endpoints, 0, 1, KEEPS_TARGET_VOTERS)
