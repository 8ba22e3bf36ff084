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
    """Base of all documents: immutable, camelCase in JSON, accepts snake_case and camelCase names.
    Unknown fields are ignored, so that an older client can read a newer node.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore"
    )


class RequestModel(ApiModel):
    """Base of request bodies: an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid"
    )


class Role(StrEnum):
    """Present role of the replica (KIP-595). `observer` is a follower that is not a voter."""

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
    """Body of every response whose status is not 2xx."""

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
    """Offset and epoch of the latest voters record; offset -1 if there is none."""

    offset: int
    epoch: int
    committed: bool


class SnapshotDescription(ApiModel):
    """A snapshot on the disk of one replica: the state of all records below `endOffset`."""

    end_offset: int
    epoch: int
    size_bytes: int
    timestamp_ms: int
    """Timestamp of the last record that the snapshot covers."""


class SnapshotResult(ApiModel):
    """Result of a snapshot request. `written` is false if the newest snapshot is already up to date."""

    node_id: int
    written: bool
    snapshot: SnapshotDescription
    log_start_offset: int


class StateDescription(ApiModel):
    """The applied state of the replica, and for an observer how far it is behind the leader."""

    applied_offset: int
    """Exclusive: all records before this offset have been applied."""
    consistent: bool
    """The state is the result of all records before `appliedOffset`. Temporarily false while a
    downloaded snapshot replaces the start of the log.
    """
    caught_up_age_ms: int | None = None
    """Observers: time since this replica last had all records of its leader. If it grows, read from another replica."""
    dirty_offset: int | None = None
    """Observers: end offset of the leader's newest snapshot, 0 if it has none."""


class CertificateModel(ApiModel):
    """A certificate. `sha256`: of its DER, in hex; times in ISO 8601, UTC."""

    subject: str
    serial: str
    sha256: str
    not_before: str
    not_after: str


class TlsDescription(ApiModel):
    """TLS state of the listener on which members dial each other: what the node presents and trusts.

    `issuer_sha256`: fingerprint of the trusted authority that issued the node's certificate.
    `trust_sha256`: SHA-256 of the fingerprints of all trusted authorities (hex, sorted, one per line).
    `revoked`: number of revoked certificates that have not expired. `revoked_sha256`: SHA-256 of their serial numbers
    (hex, sorted, one per line).
    `problem`: why the present files are not used, or why peers reject the certificate; None if all is well.
    `migration`: state of a migration from clear text to TLS; None if there is none.
    `clear_text`: peer addresses that used clear text within the last minute.
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
    """Description of one node, from its memory. No other node is asked."""

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
    """Records before this offset were deleted. `latestSnapshot`, or an earlier snapshot, covers them."""
    caught_up: bool
    formed: bool
    storage: StorageDescription
    started_at: str
    version: str
    endpoints: list[EndpointModel] = []
    """Advertised endpoints of this node, as an AddVoterRequest for it has to name them."""
    latest_snapshot: SnapshotDescription | None = None
    state: StateDescription | None = None
    witness: bool = False
    """quorum.witness: it replicates and votes, but never leads."""
    partition: int = 0
    """The quorum partition that is described. All fields but `storage` belong to it."""
    partitions: int = 1
    """Number of quorum partitions on the node."""
    log_end_epoch: int | None = None
    """Epoch of the last record. The log with the higher (epoch, end offset) is more up to date."""
    voters: list["VoterModel"] | None = None
    """The latest voter set in the node's log, committed or not."""
    tls: TlsDescription | None = None
    """None if the node does not use TLS."""


class WentBack(ApiModel):
    """A replica fetched from an offset below the one it had acknowledged to this leader: its disk has lost records."""

    acknowledged_offset: int
    offset: int
    age_ms: int


class ReplicaStatus(ApiModel):
    """Progress of one replica as its leader sees it. Ages are None before the first observation."""

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
    """True: the replica runs stock Kafka. None: unknown, it has not fetched from this leader."""
    witness: bool | None = None
    """True: it replicates and votes, but never becomes leader. None: unknown."""
    went_back: WentBack | None = None
    """The last time under this leader that the replica fetched from below its acknowledged offset. The cause is a disk
    that was rolled back. With stock Kafka, delayed requests have the same effect.
    """
    damaged_from: int | None = None
    """Offset from which on the records that the leader sends arrive damaged, as the replica reports. The leader checks
    its disk after such a report, and stops if it is bad. None: no damage is reported; stock Kafka never reports it.
    """


class TargetVoter(ApiModel):
    """One entry of the target voters. A null UUID matches any replica with this id."""

    id: int
    uuid: str | None = None


class QuorumDescription(ApiModel):
    """The quorum. Only the leader knows the progress of replicas.

    `confirmed` is true when a majority confirmed the leader after the request had arrived.
    Unconfirmed responses of a non-leader list the voters that it knows, with offsets of -1.
    `target_voters`: the target of an AlterQuorum in progress; null if there is none.
    `plan`: text that describes the leader's next step towards the target, or what it waits for.
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
    """Epoch in which `--recover` last made a survivor the sole voter; 0: never.
    A response with a lower value comes from voters of before that recovery and is void, even if it is confirmed.
    """


class DiscoveredBroker(ApiModel):
    """A voter's controller listener. Without a boot timestamp it comes from the voters record."""

    id: int
    uuid: str | None
    boot_timestamp_ms: int | None
    host: str
    port: int


class DiscoveredBrokers(ApiModel):
    """The voters' listeners as this node knows them (DiscoverBrokers). Needs no majority."""

    cluster_id: str | None
    leader_id: int | None
    leader_epoch: int
    brokers: list[DiscoveredBroker]
    partition: int = 0


class AddVoterRequest(RequestModel):
    """Add (id, uuid) as a voter. The expected position makes the request a compare-and-set.

    `count_newcomer`: count the new voter, once caught up, as live in the safety check (AddFirst: a
    failed voter is replaced by adding the new one first). Otherwise it counts as not live.
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
    """A target voter. Without a UUID it matches any replica with this id."""

    id: int = Field(ge=0, le=2**31 - 1)
    uuid: str | None = None


class AlterQuorumRequest(RequestModel):
    """The target voters of the quorum: ids, or ids with UUIDs.
    The response follows the commit of the target. The leader then changes one voter at a time.
    """

    target_voters: list[int | TargetVoterModel] = Field(min_length=1, max_length=MAX_VOTERS)
    expected_offset: int | None = None
    expected_epoch: int | None = None
    timeout_ms: int = Field(default=DEFAULT_TIMEOUT_MS, ge=1, le=MAX_TIMEOUT_MS)


class ResignRequest(RequestModel):
    """Ask the leader to hand over leadership. The preferred successor starts an election first."""

    successor_id: int | None = None


class VoterChangeResult(ApiModel):
    """A committed voter change."""

    voters_position: VotersPosition
    leader_epoch: int


class AlterQuorumResult(ApiModel):
    """The committed target (null: none), and the voters at the time of the commit."""

    current_voters: list[int]
    target_voters: list[int] | None
    voters_position: VotersPosition
    leader_epoch: int


class ResignResult(ApiModel):
    """The leader resigned; `epoch` is the epoch that ended."""

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
    """Consistency of a read. The asked node answers both kinds from its own state."""

    LINEARIZABLE = "linearizable"
    """Linearizable: the leader was confirmed by a majority after the request had arrived."""
    LOCAL = "local"
    """The present state of the replica, without a round trip."""


class ConfigValue(ApiModel):
    """A value as of `offset` (exclusive end of the records that had been applied when it was read).

    `age_ms` comes with a local read: the value reflects everything that the leader had committed
    that long ago. None: the replica never fetched from a leader. If that leader has been replaced
    without noticing it yet, the state may be older by up to controller.quorum.fetch.timeout.ms.
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
    """All voters records of one replica's log, oldest first.
    The first entry is the voter set of the snapshot at the start of the log, if there is one.
    """

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
