"""The admin HTTP API's documents, as pydantic models with camelCase JSON names.

Shared by the node (which serves them), `quorumctl` and the operator (which read them). Holds data
only: no transport, no rules. Replica UUIDs are in Kafka's 22-character base64url text form.
Exclusive ends are called `end_offset`; ages and timeouts are milliseconds.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from quorum_node.api_error_code import ErrorCode as ErrorCode

DEFAULT_TIMEOUT_MS = 2000
MAX_TIMEOUT_MS = 600_000
MAX_VOTERS = 100


class ApiModel(BaseModel):
    """Base: immutable, camelCase in JSON, either name accepted, unknown fields ignored.

    Unknown fields are ignored so that an older client can read a newer node.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore"
    )


class RequestModel(ApiModel):
    """Base of request bodies: a misspelt field is an error, not a silent default."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid"
    )


class Role(StrEnum):
    """What the replica is right now (KIP-595 roles; `observer` is a follower that is no voter)."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    PROSPECTIVE = "prospective"
    UNATTACHED = "unattached"
    RESIGNED = "resigned"
    OBSERVER = "observer"


class StorageState(StrEnum):
    """State of the replica's data directory."""

    OK = "ok"
    FAILED = "failed"
    FULL = "full"


class ErrorBody(ApiModel):
    """Body of every answer that is not 2xx."""

    code: str
    message: str
    leader_id: int | None = None
    leader_epoch: int | None = None
    leader_url: str | None = None


class EndpointModel(ApiModel):
    """Where a replica listens. Names in use: CONTROLLER (Kafka protocol), ADMIN (this API)."""

    name: str
    host: str
    port: int = Field(ge=0, le=65535)


class StorageDescription(ApiModel):
    """The data directory of one replica."""

    state: StorageState
    free_bytes: int | None = None
    detail: str | None = None


class VotersPosition(ApiModel):
    """Where in the log the latest voters record stands; offset -1 when there is none."""

    offset: int
    epoch: int
    committed: bool


class SnapshotDescription(ApiModel):
    """A snapshot on one replica's disk: the state of all records below `endOffset`."""

    end_offset: int
    epoch: int
    size_bytes: int
    timestamp_ms: int
    """Of the last record that it stands for."""


class SnapshotResult(ApiModel):
    """A snapshot that was asked for; `written` is false if the newest one holds all there is."""

    node_id: int
    written: bool
    snapshot: SnapshotDescription
    log_start_offset: int


class StateDescription(ApiModel):
    """What the replica's state holds, and on an observer how well it keeps up with the leader."""

    applied_offset: int
    """Records before it are in the state."""
    consistent: bool
    """The state is the outcome of all records before `appliedOffset`. Not so for a moment while a
    downloaded snapshot takes the place of the log before it."""
    caught_up_age_ms: int | None = None
    """Observers: how long ago this replica had everything that its leader had. If it grows, read
    somewhere else."""
    dirty_offset: int | None = None
    """Observers: where the leader's newest snapshot ends, 0 if it has none."""


class CertificateModel(ApiModel):
    """A certificate. `sha256`: of its DER, in hex; times in ISO 8601, UTC."""

    subject: str
    serial: str
    sha256: str
    not_before: str
    not_after: str


class TlsDescription(ApiModel):
    """What a node shows to others and whom it trusts, on the listener by which members dial each other.

    `issuer_sha256`: of the trusted authority that its certificate leads to; `trust_sha256`: of the fingerprints of all that are
    trusted, in hex, sorted, one a line. `revoked`: how many certificates are refused before their end; `revoked_sha256`: of their serials, in hex,
    sorted, one a line. `problem`: why the files as they are now are not used, or why others refuse the certificate; None if nothing is wrong.
    `migration`: how far the node is on the way from clear text to TLS, None if it is not on it; `clear_text`: addresses that speak clear text to it, or did within
    the last minute.
    """

    certificate: CertificateModel
    issuer_sha256: str | None
    trusted: list[CertificateModel]
    trust_sha256: str
    revoked: int = 0
    revoked_sha256: str = ""
    problem: str | None = None
    migration: str | None = None
    clear_text: list[str] = Field(default_factory=list)


class NodeDescription(ApiModel):
    """What one node says of itself, from memory, without asking anyone."""

    node_id: int
    replica_uuid: str
    cluster_id: str | None
    role: Role
    is_voter: bool
    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    log_start_offset: int
    """Records before it were deleted: `latestSnapshot`, or one before it, holds their state."""
    caught_up: bool
    formed: bool
    storage: StorageDescription
    started_at: str
    version: str
    endpoints: list[EndpointModel] = []
    """Where this node says that it can be reached; what an AddVoterRequest for it carries."""
    latest_snapshot: SnapshotDescription | None = None
    state: StateDescription | None = None
    witness: bool = False
    """quorum.witness: it replicates and votes, but never leads."""
    partition: int = 0
    """Which of its quorum partitions this is about; everything but `storage` is that one's."""
    partitions: int = 1
    """How many of them the node hosts."""
    log_end_epoch: int | None = None
    """Epoch of the last record: of two logs the one with the higher (epoch, end offset) has more."""
    voters: list["VoterModel"] | None = None
    """The latest voter set in its log; it may not be committed."""
    tls: TlsDescription | None = None
    """None for a node in clear text."""


class WentBack(ApiModel):
    """A replica fetched from before what it had acknowledged to this leader: its disk has lost records."""

    acknowledged_offset: int
    offset: int
    age_ms: int


class ReplicaStatus(ApiModel):
    """Progress of one replica as its leader sees it; ages are None when never observed."""

    id: int
    uuid: str
    endpoints: list[EndpointModel] = []
    log_end_offset: int
    lag: int
    last_fetch_age_ms: int | None = None
    last_caught_up_age_ms: int | None = None
    fetching: bool
    caught_up: bool
    stock: bool | None = None
    """A process of stock Kafka; None: not known, it has not fetched from this leader."""
    witness: bool | None = None
    """It replicates and votes, but never leads; None: not known."""
    went_back: WentBack | None = None
    """The last time under this leader that it came back with less than it had acknowledged. A disk that was rolled
    back does that; so do, of stock Kafka's processes, late requests."""


class TargetVoter(ApiModel):
    """One entry of the target; a UUID of null stands for whatever replica has the id."""

    id: int
    uuid: str | None = None


class QuorumDescription(ApiModel):
    """The quorum; replica progress is known on the leader alone.

    `confirmed` is true when a majority confirmed the leader after the request had arrived.
    Unconfirmed answers of a non-leader carry the voters it knows, with offsets of -1.
    `target_voters`: where an AlterQuorum is heading (null: nowhere); `plan`: in words, what the leader
    does next about it, or waits for.
    """

    cluster_id: str | None
    leader_id: int | None
    leader_uuid: str | None
    leader_epoch: int
    high_watermark: int
    log_end_offset: int
    voters: list[ReplicaStatus]
    observers: list[ReplicaStatus]
    voters_position: VotersPosition
    pending_change: bool
    own_epoch_committed: bool
    formed: bool
    initial_voters: int
    confirmed: bool
    node_id: int
    partition: int = 0
    target_voters: list[TargetVoter] | None = None
    plan: str = ""
    recovered_epoch: int = 0
    """The epoch in which `--recover` made a sole voter of a survivor, the last time; 0: never. An answer with a smaller
    one is of voters from before it, whatever they confirm."""


class DiscoveredBroker(ApiModel):
    """A voter's controller listener; without a boot timestamp it is that of the voters record."""

    id: int
    uuid: str | None
    boot_timestamp_ms: int | None
    host: str
    port: int


class DiscoveredBrokers(ApiModel):
    """What one node has heard of where the voters listen (DiscoverBrokers); needs no majority."""

    cluster_id: str | None
    leader_id: int | None
    leader_epoch: int
    brokers: list[DiscoveredBroker]
    partition: int = 0


class AddVoterRequest(RequestModel):
    """Add (id, uuid) as a voter. The expected position makes it a compare-and-set.

    `count_newcomer`: the newcomer, caught up, counts as alive in the safety check (the order
    AddFirst for a failed disk); without it the newcomer counts as dead.
    """

    id: int = Field(ge=0)
    uuid: str
    endpoints: list[EndpointModel] = Field(min_length=1)
    expected_offset: int | None = None
    expected_epoch: int | None = None
    count_newcomer: bool = False
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class UpdateVoterRequest(RequestModel):
    """New endpoints of a voter. The expected position makes it a compare-and-set."""

    endpoints: list[EndpointModel] = Field(min_length=1)
    expected_offset: int | None = None
    expected_epoch: int | None = None
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class TargetVoterModel(RequestModel):
    """A wanted voter; without a UUID whatever replica has the id."""

    id: int = Field(ge=0, le=2**31 - 1)
    uuid: str | None = None


class AlterQuorumRequest(RequestModel):
    """The voters that the quorum is to have in the end: ids, or ids with UUIDs.

    The answer follows the commit of the target; the leader goes there by single changes.
    """

    target_voters: list[int | TargetVoterModel] = Field(min_length=1, max_length=MAX_VOTERS)
    expected_offset: int | None = None
    expected_epoch: int | None = None
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class ResignRequest(RequestModel):
    """Ask the leader to hand leadership over; the preferred successor campaigns first."""

    successor_id: int | None = None


class VoterChangeResult(ApiModel):
    """A committed voter change."""

    voters_position: VotersPosition
    leader_epoch: int


class AlterQuorumResult(ApiModel):
    """The target that is committed now (null: none), and the voters of that moment."""

    current_voters: list[int]
    target_voters: list[int] | None
    voters_position: VotersPosition
    leader_epoch: int


class ResignResult(ApiModel):
    """Leadership was given up; `epoch` is the one that ended."""

    epoch: int


class ConfigEntry(ApiModel):
    """One key → value. resourceType: topic | broker | ...; an empty name is the cluster default."""

    resource_type: str
    resource_name: str
    name: str
    value: str | None


class PutConfigRequest(RequestModel):
    """Set (or with null: delete) one key."""

    value: str | None
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class AppendRequest(RequestModel):
    """Several puts as one record batch: all or nothing."""

    entries: list[ConfigEntry] = Field(min_length=1, max_length=100_000)
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class AppendResult(ApiModel):
    """Where the records were committed: offset <= o < endOffset, in `epoch`."""

    offset: int
    end_offset: int
    epoch: int


class Consistency(StrEnum):
    """How a read is answered; both by the asked replica, from its own state."""

    LINEARIZABLE = "linearizable"
    """Not older than the request: the leader proved after it arrived that it still leads."""
    LOCAL = "local"
    """What the replica has, at once."""


class ConfigValue(ApiModel):
    """A value as of `offset` (exclusive end of what had been applied when it was read).

    `age_ms` comes with a local read: what the replica's leader had committed that long ago is in it
    (None: it never heard of one). If that leader has been replaced without knowing it yet, the state
    may be older by up to controller.quorum.fetch.timeout.ms.
    """

    resource_type: str
    resource_name: str
    name: str
    value: str
    offset: int
    consistency: Consistency
    age_ms: int | None = None


class ConfigList(ApiModel):
    """Key → value pairs as of `offset`, all at one point in time; `age_ms` as in ConfigValue."""

    entries: list[ConfigEntry]
    offset: int
    consistency: Consistency = Consistency.LOCAL
    age_ms: int | None = None


class LogRecord(ApiModel):
    """One committed record, decoded. `type` is the record's name, `fields` its content."""

    offset: int
    epoch: int
    timestamp_ms: int
    control: bool
    type: str
    fields: dict[str, object]


class LogPage(ApiModel):
    """Committed records from one replica's own log; ask again from `nextOffset`."""

    node_id: int
    replica_uuid: str
    records: list[LogRecord]
    next_offset: int
    high_watermark: int
    log_start_offset: int = 0


class VoterModel(ApiModel):
    """One voter as the voters record has it."""

    id: int
    uuid: str
    endpoints: list[EndpointModel] = []


class VoterSetEntry(ApiModel):
    """One voters record of the log."""

    offset: int
    epoch: int
    committed: bool
    voters: list[VoterModel]


class VoterHistory(ApiModel):
    """Every voters record of one replica's log, oldest first; before them the set that was in force at
    the log's start, if that is behind a snapshot."""

    node_id: int
    history: list[VoterSetEntry]


class Liveness(ApiModel):
    """Answer of /livez."""

    live: bool
    reason: str | None = None


class Readiness(ApiModel):
    """Answer of /readyz."""

    ready: bool
    reason: str
    lag: int | None = None
