"""Requests and responses of one partition, in the form of the core.

Owns their fields. Must not know bytes, versions, topics or requests for several partitions: `server/wire/` translates
both ways. Offsets named `*_end_offset` are exclusive. Epoch 0 is the epoch of an empty log. Every response carries
the leader that the responder knows (KIP-595, "common attributes").
"""

from dataclasses import dataclass

from quorum_node.made_often import made_often
from quorum_node.raft.endpoint_gossip import ReceivedEndpoint
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import KEEPS_TARGET_VOTERS, Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_id import SnapshotId

NO_LEADER = -1
STOCK_SENDER = -2
"""`answer` of a Fetch without an answer round: its sender is stock Kafka."""


@made_often
@dataclass(frozen=True, slots=True)
class CurrentLeader:
    """Leader id (NO_LEADER if unknown), leader epoch, and the leader's controller endpoint if known.

    `recovered_epoch`: that of the responder's voters record (-1: not sent); see `seen_recoveries.py`.
    """

    leader_id: int
    leader_epoch: int
    endpoint: Endpoint | None = None
    recovered_epoch: int = -1


@dataclass(frozen=True, slots=True)
class VotersPosition:
    """Offset and epoch of a voters record. It identifies a voter set for compare-and-set."""

    offset: int
    epoch: int


# Vote: KIP-595 "Vote", KIP-853 (keys), KIP-650 (pre-vote)
@dataclass(frozen=True, slots=True)
class VoteRequest:
    """`voter` is the addressed key (None before v1). A pre-vote carries the sender's current epoch.

    `static_voters`: ids of a static quorum whose UUIDs are unknown to the candidate.
    `recovered_epoch`: that of the candidate's log (-1: not sent); see `seen_recoveries.py`.
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
    """`fetch_offset` is also an acknowledgement: all records before it are durable on the sender.

    `replica.id` is -1 for a consumer, which is served up to the high watermark. `answer`: round of the last response
    that the sender processed from this leader in this epoch (-1: none). It confirms linearizable reads. STOCK_SENDER
    if the sender does not support rounds. `high_watermark`: that of the sender (-1: not sent).
    `witness`: the sender never starts an election.
    `endpoints`: addresses of an observer, sent until the leader has responded.
    `corrupt`: the last records from this offset could not be appended, as they are damaged. `recovered_epoch`: that
    of the sender's voters record. If it is set, the response carries the responder's.
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
    """The logs differ. Largest epoch on the leader at or below the sender's, and its end offset."""

    epoch: int
    end_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class RecordsRange:
    """Range of the log whose bytes are to be read: whole batches from start_offset, up to limit_offset.

    `checked`: bypass the page cache and verify every checksum before the bytes are sent.
    """

    start_offset: int
    limit_offset: int
    max_bytes: int
    checked: bool = False


@dataclass(frozen=True, slots=True)
class KeepingUp:
    """Lag of an observer, from the leader's view (KIP-595, "Log Compaction").

    `caught_up_age_ms`: time since it had all records of the leader. `dirty_offset`: end of the
    leader's newest snapshot (0: none); an observer beyond that offset does not need the snapshot.
    """

    caught_up_age_ms: int
    dirty_offset: int


@made_often
@dataclass(frozen=True, slots=True)
class FetchResponse:
    """On the leader `range` is set if there is data; on the follower `records` has the bytes.

    With `diverging` the error is OFFSET_OUT_OF_RANGE (KIP draft); the shipped wire format has NONE
    and a DivergingEpoch.
    NOT_FOLLOWER carries data like NONE: the shipped wire format has NONE, and the data contains the
    voters record that removed the sender.
    With `snapshot_id` the error is OFFSET_OUT_OF_RANGE as well (NONE on the wire): the log can't
    serve the sender, it has to download that snapshot.
    `keeping_up` is sent to observers.
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
    """Request for the bytes of a snapshot from `position` on.

    It acknowledges nothing, but counts as contact.
    """

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
    """On the leader `part` is set if there is something to read; on the follower `data` has the bytes.

    `size_bytes` and `checksum` (CRC-32C; None from a stock leader) refer to the whole snapshot.
    Parts of two leaders can be combined only if both values are equal.
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
    """A replica fetched from `offset`, although it had acknowledged everything before
    `acknowledged_offset`.

    `at_ms`: time of detection, by the core's clock.
    """

    acknowledged_offset: int
    offset: int
    at_ms: float


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """A replica from the leader's view. Times are those of the core's clock; None: never in this epoch.

    `stock`: it runs stock Kafka, which lacks our private fields. `witness`: it never starts an
    election. None: it has not fetched in this epoch. `went_back`: the last time in this epoch that
    it fetched from below its acknowledged offset. `damaged_from`: offset from which on the records
    that it was sent are damaged, as its latest fetch reports; None: it reports no damage.
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
    damaged_from: int | None = None


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
    """Request for the offset up to which the sender has to apply the log before it answers a linearizable read.

    `read_timestamp_ms`: wall clock of the sender, for diagnosis only. `stale`: no confirmation is needed. The
    response states the present offset of the receiver, whatever its role, and its age.
    """

    cluster_id: str | None
    read_timestamp_ms: int = -1
    stale: bool = False


@dataclass(frozen=True, slots=True)
class ReadOffsetResponse:
    """`offset` is -1 with any error. `age_ms` belongs to a `stale` request (-1: unknown)."""

    error: RaftError
    leader: CurrentLeader
    offset: int = -1
    age_ms: int = -1


# DiscoverBrokers: KIP-595
@dataclass(frozen=True, slots=True)
class DiscoverBrokersRequest:
    """`replica.id` -1: a client; the other fields are then meaningless. A UUID of None: not sent."""

    replica: ReplicaKey
    boot_timestamp_ms: int = -1
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class DiscoverBrokersResponse:
    """`brokers`: every voter that the responder knows, itself included."""

    error: RaftError
    leader: CurrentLeader
    cluster_id: str | None = None
    brokers: tuple[ReceivedEndpoint, ...] = ()


# Membership: KIP-853
@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """`expected`: position of the committed voters record that the caller has seen (compare-and-set).

    `count_newcomer`: the order "add first" for a failed disk: the new voter, caught up, counts as
    live in the safety check. Otherwise it counts as dead.
    `ack_when_committed`: False for a replica that joins by itself (KIP-1186). The response follows
    the append, and a tombstone of its key forbids the join.
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
    """New endpoints of a voter, sent by itself, or by an authorized person (`by_operator`).

    `current_leader_epoch`: epoch of the leader that the voter follows; not needed with `by_operator`.
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
    """`target`: the target voters; a UUID of None matches any replica with that id. None: cancel."""

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
    """Request of an administrator: hand over leadership, to `successor` if given, else to the best voter."""

    successor: ReplicaKey | None = None


@dataclass(frozen=True, slots=True)
class ResignResponse:
    """Sent when leadership was handed over (EndQuorumEpoch is on its way)."""

    error: RaftError
    leader: CurrentLeader
    message: str = ""


# Probe of a new voter's endpoint before it is added
@dataclass(frozen=True, slots=True)
class ApiVersionsRequest:
    pass


@dataclass(frozen=True, slots=True)
class ApiVersionsResponse:
    """Range of kraft.version and our own features that the node at that endpoint supports."""

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
"""Requests that a replica can receive. The server itself answers ApiVersions."""

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
"""Responses of a replica."""

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
"""Requests that a replica sends."""

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
"""Responses to an OutboundRequest."""


def voter_entry(key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> Voter:
    """Voters record entry of a voter of this software: kraft.version 0 to 1."""
    return Voter(key, endpoints, 0, 1, KEEPS_TARGET_VOTERS)
