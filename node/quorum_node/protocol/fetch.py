"""Fetch: replication of the log to voters and observers (KIP-595, "Fetch"; KIP-853; as shipped,
versions 4-18).

Private tagged fields, which stock peers ignore:
20000 `answer`, request and response: the answer round for linearizable reads. Our requests always
have it, so a leader recognizes stock replicas by its absence.
20001 `witness`, request: the sender never starts an election.
20002 `listeners`, request: addresses of an observer, needed to make it a voter.
20004 `corrupt`, request: the last records from this offset were damaged.
20006 `recovered_epoch`: epoch of the last recovery of the quorum; the response has it if the
request has.
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    BOOL,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

TAG_ANSWER = 20000
TAG_WITNESS = 20001
ANSWER_UNSUPPORTED = -2
"""The sender does not support answer rounds."""
TAG_LISTENERS = 20002
TAG_KEEPING_UP = 20003
TAG_CORRUPT = 20004
TAG_RECOVERED_EPOCH = 20006
TAG_DRAFT_ERROR = 20005
HIGH_WATERMARK_UNSUPPORTED = 0x7FFFFFFFFFFFFFFF
"""The request is older than version 18, which has no high watermark."""


@message()
class ReplicaState(Message):
    """The fetching replica; -1 is a consumer."""

    replica_id: int = wire(INT32, default=-1)
    replica_epoch: int = wire(INT64, default=-1)


NO_REPLICA_STATE = ReplicaState()


@message()
class ReplicaListener(Message):
    """One listener of the fetching replica."""

    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


@message()
class FetchPartition(Message):
    """What to fetch from one partition."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=9, default=-1, ignorable=True)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, since=12, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1, ignorable=True)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: UUID | None = wire(
        UUID_TYPE, since=17, tag=0, default=None, ignorable=True
    )
    high_watermark: int = wire(
        INT64, since=18, tag=1, default=HIGH_WATERMARK_UNSUPPORTED, ignorable=True
    )
    answer: int = wire(INT64, since=12, tag=TAG_ANSWER, default=ANSWER_UNSUPPORTED, ignorable=True)
    witness: bool = wire(BOOL, since=12, tag=TAG_WITNESS, default=False, ignorable=True)
    listeners: tuple[ReplicaListener, ...] = wire(
        Array(ReplicaListener), since=12, tag=TAG_LISTENERS, default=(), ignorable=True
    )
    corrupt: bool = wire(BOOL, since=12, tag=TAG_CORRUPT, default=False, ignorable=True)
    recovered_epoch: int = wire(INT32, since=12, tag=TAG_RECOVERED_EPOCH, default=0, ignorable=True)


@message()
class FetchTopic(Message):
    """A topic: by name below version 13, by id from there on."""

    topic: str = wire(STRING, until=12, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=13, default=None, ignorable=True)
    partitions: tuple[FetchPartition, ...] = wire(Array(FetchPartition))


@message()
class ForgottenTopic(Message):
    """A topic that leaves a fetch session."""

    topic: str = wire(STRING, since=7, until=12, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=13, default=None, ignorable=True)
    partitions: tuple[int, ...] = wire(Array(INT32), since=7, default=())


@message(flexible_since=12)
class FetchRequest(Message):
    """Fetch request."""

    cluster_id: str | None = wire(
        STRING, since=12, tag=0, nullable_since=12, default=None, ignorable=True
    )
    replica_id: int = wire(INT32, until=14, default=-1, ignorable=True)
    replica_state: ReplicaState = wire(
        ReplicaState, since=15, tag=1, default=NO_REPLICA_STATE, ignorable=True
    )
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, since=3, default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = wire(INT8, since=4, default=0)
    session_id: int = wire(INT32, since=7, default=0, ignorable=True)
    session_epoch: int = wire(INT32, since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = wire(Array(FetchTopic))
    forgotten_topics_data: tuple[ForgottenTopic, ...] = wire(
        Array(ForgottenTopic), since=7, default=()
    )
    rack_id: str = wire(STRING, since=11, default="", ignorable=True)

    @property
    def fetcher_id(self) -> int:
        """Node id of the fetching replica, wherever its version puts it; -1 for a consumer."""
        state_id = self.replica_state.replica_id
        return self.replica_id if state_id == -1 else state_id


@message()
class EpochEndOffset(Message):
    """Where the logs diverge: truncate to the end of this epoch."""

    epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


@message()
class LeaderIdAndEpoch(Message):
    """Current leader, -1 when unknown, and epoch."""

    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


@message()
class SnapshotId(Message):
    """The snapshot to fetch instead."""

    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


@message()
class AbortedTransaction(Message):
    """An aborted transaction: its producer, and where its records begin."""

    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


@message()
class KeepingUp(Message):
    """An observer's lag: the KIP draft's last caught-up time, as an age, and dirty offset."""

    caught_up_age_ms: int = wire(INT64, default=-1)
    dirty_offset: int = wire(INT64, default=-1)


NO_KEEPING_UP = KeepingUp()
NO_DIVERGENCE = EpochEndOffset()
NO_LEADER = LeaderIdAndEpoch()
NO_SNAPSHOT = SnapshotId()


@message()
class FetchResponsePartition(Message):
    """Result for one partition; `records` are raw batches, decoded as a view."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, since=4, default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = wire(
        EpochEndOffset, since=12, tag=0, default=NO_DIVERGENCE, ignorable=True
    )
    current_leader: LeaderIdAndEpoch = wire(
        LeaderIdAndEpoch, since=12, tag=1, default=NO_LEADER, ignorable=True
    )
    snapshot_id: SnapshotId = wire(SnapshotId, since=12, tag=2, default=NO_SNAPSHOT, ignorable=True)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = wire(
        Array(AbortedTransaction), since=4, nullable_since=4, default=None, ignorable=True
    )
    preferred_read_replica: int = wire(INT32, since=11, default=-1, ignorable=True)
    records: bytes | memoryview | None = wire(RECORDS, nullable_since=0, default=b"")
    answer: int = wire(INT64, since=12, tag=TAG_ANSWER, default=-1, ignorable=True)
    keeping_up: KeepingUp = wire(
        KeepingUp, since=12, tag=TAG_KEEPING_UP, default=NO_KEEPING_UP, ignorable=True
    )
    recovered_epoch: int = wire(
        INT32, since=12, tag=TAG_RECOVERED_EPOCH, default=-1, ignorable=True
    )
    draft_error: int = wire(INT16, since=12, tag=TAG_DRAFT_ERROR, default=0, ignorable=True)


@message()
class FetchResponseTopic(Message):
    """Results for one topic."""

    topic: str = wire(STRING, until=12, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=13, default=None, ignorable=True)
    partitions: tuple[FetchResponsePartition, ...] = wire(Array(FetchResponsePartition))


@message()
class FetchNodeEndpoint(Message):
    """Address of a leader; here the port has 32 bits."""

    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=16, default=None)


@message(flexible_since=12)
class FetchResponse(Message):
    """Fetch response."""

    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    error_code: int = wire(INT16, since=7, default=0, ignorable=True)
    session_id: int = wire(INT32, since=7, default=0)
    responses: tuple[FetchResponseTopic, ...] = wire(Array(FetchResponseTopic))
    node_endpoints: tuple[FetchNodeEndpoint, ...] = wire(
        Array(FetchNodeEndpoint), since=16, tag=0, default=(), ignorable=True
    )


FETCH = Api(1, FetchRequest, FetchResponse, 4, 18, is_about_quorum=True)
