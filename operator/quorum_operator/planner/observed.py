"""What one reconcile saw: the planner's only input.

Owns plain facts, gathered by `kube/observe.py` and `quorum_client.py`: the wanted state, the
identity objects, the incarnations with their pod, claim, volume and host, the quorum description,
and a clock reading (seconds since 1970). Must not know how they were gathered, nor judge them.
Replica UUIDs are text in Kafka's 22-character form.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from quorum_node.records.identity import uuid_text
from quorum_node.survivor import Survivor
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.backups import BackupsSeen
from quorum_operator.planner.certificates_seen import CertificatesSeen, LoadedCertificates
from quorum_operator.planner.host_room import HostRoom
from quorum_operator.planner.noticed import NotMade, Suspicion
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.planner.update_record import UpdateRecord, UpdateWanted
from quorum_operator.quantity import value_of
from quorum_operator.tls_crd import TlsMode


class Key(NamedTuple):
    """A replica key: node id and replica UUID (KIP-853)."""

    id: int
    uuid: str


@dataclass(frozen=True, slots=True, eq=False)
class StorageChoice:
    """What a member's volume was, or is to be, claimed with. Sizes are quantities: equal is what has the same value."""

    size: str
    storage_class: str | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageChoice) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    @property
    def _value(self) -> tuple[Fraction | str, str | None]:
        value = value_of(self.size)
        return self.size if value is None else value, self.storage_class


class Confirmation(NamedTuple):
    """The survivor that a lost quorum is to be recovered from (spec.recovery)."""

    id: int
    uuid: str
    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The part of the spec that planning reads."""

    replicas: int
    storage: StorageChoice
    retire: frozenset[int] = frozenset()
    replacement_order: ReplacementOrder = ReplacementOrder.AUTO
    paused: bool = False
    repair_enabled: bool = True
    debounce_s: float = 30.0
    max_replacements_per_hour: int = 6
    unreachable_after_s: float | None = None  # None: members on hosts that stay away are waited for
    recovery: Confirmation | None = None
    adopt: str | None = None
    """Cluster id whose claims, of an earlier resource, are to be run again."""
    leave_claims: bool = False  # claims of an earlier resource stay, and something new is founded
    cluster_id: str | None = None  # that a new quorum is to have
    keep_failed_s: float | None = None  # volumes of failed members; None: for ever
    restores: bool = False  # a new quorum begins with a backup: one voter, then the others
    tls_mode: TlsMode | None = None  # None: the spec says nothing


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity object: the birth certificate of one formation. `index` counts from 1."""

    index: int
    cluster_id: str
    founder_id: int
    founder_uuid: str
    initial_voters: int
    formed: bool
    """Formation may be complete: no directory may be formatted as a voter ever again."""
    resource_version: str = ""
    restarting: str | None = None  # UID of the pod that was picked last (see `RestartMember`)
    network_policy: bool = False  # formed with one: it has one unless the spec says otherwise
    tls: bool = False  # formed with certificates: its members have them, whatever the spec says
    migration: TlsStage = TlsStage.PLAIN  # how far one that was formed without them has come
    update: UpdateRecord | None = None  # None: nothing is known to be proven

    @property
    def tls_stage(self) -> TlsStage:
        """What its members are told now."""
        return TlsStage.CLOSED if self.tls else self.migration


@dataclass(frozen=True, slots=True)
class Founding:
    """The permission to form a quorum, as the founder's process is started with it."""

    founder_id: int
    founder_uuid: str
    initial_voters: int


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A member's pod. `exit_code` is of the last container that ended in this very pod."""

    name: str
    uid: str
    created_at: float
    ip: str | None = None
    host: str | None = None
    phase: str = "Running"
    ready: bool = True
    deleting: bool = False
    held_by: tuple[str, ...] = ()  # finalizers, while it is being deleted
    running: bool = True  # its container, at this moment
    started: bool = True  # the container has run in this pod at least once
    exit_code: int | None = None
    exit_reason: str | None = None
    exit_message: str | None = None
    exit_at: float | None = None
    waiting_reason: str | None = None
    waiting_message: str | None = None
    not_ready_since: float | None = None
    ready_since: float | None = None
    mount_failed_at: float | None = None
    """When mounting its data volume failed last; None where that is over, or never was."""
    mount_failure: str | None = None
    unusable_volume: str | None = None
    """What the container runtime says of a data volume that is mounted and can't be read."""
    unschedulable: str | None = None
    restart_hash: str | None = None
    outdated: bool = False
    """The StatefulSet has another template now than the one that this pod was made from."""
    runs_other: bool = False
    """And it has another image, other arguments or resources."""
    tls_stage: TlsStage = TlsStage.CLOSED
    """Of its process, by its arguments. One that is not known may present a certificate."""
    token_refused_since: float | None = None
    """Since when its node does not take the admin token that is in the Secret now."""


@dataclass(frozen=True, slots=True)
class FailureLatch:
    """Written on an incarnation whose disk is held to be dead; only a circumstance is ever taken back."""

    reason: str
    evidence: str
    at: float
    first_sign_at: float


@dataclass(frozen=True, slots=True)
class Marks:
    """What is written on a claim, so that it is known when the StatefulSet is gone.

    A claim that has a `uuid` has all the marks that it is to have: they are written together, and a failure, a fence or
    a removal before the member is stopped.
    """

    uuid: str | None = None  # replica UUID of the directory on it
    cluster_id: str | None = None
    resource_uid: str | None = None  # UID of the MetadataQuorum that it was made for
    formation: int | None = None
    failed: FailureLatch | None = None
    fenced: str | None = None
    """The quorum is recovered from another member: why this one was stopped."""
    removed: str | None = None  # why it is no member's any more
    recovery: str | None = None
    """The survivor that its replica is, or was, to be the sole voter from; as annotated."""

    @property
    def bars(self) -> str | None:
        """The mark that forbids any member to run on it again, in words."""
        if self.failed is not None:
            return f"marked failed ({self.failed.reason})"
        if self.fenced is not None:
            return "marked fenced"
        return None if self.removed is None else f"marked removed ({self.removed})"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The Node that a member's pod is bound to, or that its volume is tied to."""

    name: str
    exists: bool
    ready: bool
    zone: str = ""
    zone_is_away: bool = False
    """The zone has several Nodes, and none of them is ready."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A member's PersistentVolumeClaim."""

    name: str
    uid: str
    phase: str = "Bound"
    deleting: bool = False
    volume: str | None = None
    marks: Marks = Marks()
    resource_version: str = ""
    network_policy: bool = False
    """Its quorum was formed with a NetworkPolicy. Written when the claim is made, and never later."""
    tls: bool = False
    """Its quorum was formed with certificates; written in the same way."""
    storage_class: str | None = None  # as the API server keeps it: the default class is named
    owners: frozenset[str] = frozenset()  # UIDs
    expandable: bool = False
    """Its class lets it grow while it is in use. Looked at only where more is wanted."""


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """The PersistentVolume behind a claim. `hosts` names the nodes it is tied to, if any."""

    name: str
    phase: str = "Bound"
    hosts: tuple[str, ...] = ()
    hosts_exist: bool = True
    """False only when the API server answered for each of `hosts` that there is no such Node."""


@dataclass(frozen=True, slots=True)
class LoneClaim:
    """A claim with the name of a member's whose StatefulSet does not exist."""

    node_id: int
    number: int
    member: str
    """Name of the StatefulSet that is missing."""
    claim: ClaimFacts
    storage: StorageChoice

    @property
    def key(self) -> Key | None:
        """The replica on it, as far as it is known."""
        uuid = self.claim.marks.uuid
        return None if uuid is None else Key(self.node_id, uuid)


@dataclass(frozen=True, slots=True)
class HeldLog:
    """The log that a member's process holds, and the latest voters in it, committed or not."""

    last_epoch: int
    """Epoch of the last record."""
    end_offset: int
    committed_offset: int
    """All records before it are committed, as far as the replica knows."""
    leader_epoch: int
    """The newest epoch that it has heard of."""
    voters: frozenset[Key]

    @property
    def length(self) -> tuple[int, int]:
        """What Raft compares logs by: of two logs the one with more has all that is committed in the other."""
        return (self.last_epoch, self.end_offset)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What the member's process said of itself in this reconcile (GET /v1/node)."""

    uuid: str
    cluster_id: str | None
    role: str
    formed: bool
    caught_up: bool
    storage: str  # ok, failed or full
    storage_detail: str | None = None
    log: HeldLog | None = None  # None: the node's version does not tell
    certificates: LoadedCertificates | None = None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One StatefulSet: the n-th life of a member, with all that hangs on it."""

    node_id: int
    number: int
    name: str
    uid: str
    resource_version: str
    created_at: float
    formation: int
    storage: StorageChoice
    replicas: int = 1
    uuid: str | None = None  # replica UUID as recorded on the StatefulSet
    failed: FailureLatch | None = None
    suspected: Suspicion | None = None
    host: HostFacts | None = None  # only of a member whose pod is not ready
    unreachable_since: float | None = None
    """Since when nobody could reach it, by the last status."""
    taken_back: tuple[float, ...] = ()  # when latches of this incarnation were taken back
    stopped: str | None = None  # why the operator scaled it to zero
    replaces: int | None = None
    """Number of the failed incarnation that this one stands in for."""
    rebuilt: bool = False  # its StatefulSet was made again for its claim
    recovery: Survivor | None = None
    """Its replica is to become, or has become, the sole voter of a quorum that was lost."""
    recovery_given_up: bool = False
    """It is not to become that any more; it may have become it all the same."""
    template_hash: str | None = None
    drift: str | None = None
    """What somebody has changed on the StatefulSet since the operator wrote it."""
    restart_hash: str | None = None
    cluster_id: str | None = None
    """That its process is started with."""
    founding: Founding | None = None
    """Its process is started with the permission to form a quorum."""
    tls_stage: TlsStage = TlsStage.PLAIN
    """What its next process is told of certificates."""
    notes_lost: frozenset[str] = frozenset()
    """Which of `uuid`, `failed` and `stopped` stand on its claim alone, and not on the StatefulSet."""
    held_by: tuple[str, ...] = ()  # finalizers, while its StatefulSet is being deleted
    pod: PodFacts | None = None
    not_made: NotMade | None = None
    """Why there is no pod."""
    claim: ClaimFacts | None = None
    volume: VolumeFacts | None = None
    report: NodeReport | None = None

    @property
    def known_uuid(self) -> str | None:
        """The recorded UUID, else what the process reports."""
        if self.uuid is not None:
            return self.uuid
        return self.report.uuid if self.report is not None else None

    @property
    def recovered_uuid(self) -> str | None:
        """The UUID that its replica has after a recovery."""
        return None if self.recovery is None else uuid_text(self.recovery.recovered_uuid)

    @property
    def key(self) -> Key | None:
        """Its replica key, once known."""
        uuid = self.known_uuid
        return None if uuid is None else Key(self.node_id, uuid)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica as the leader describes it.

    `went_back`: (acknowledged, now) end offsets of a replica whose disk has lost records. It condemns nobody.
    """

    key: Key
    fetching: bool
    caught_up: bool
    lag: int = 0
    went_back: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class TargetVoter:
    """One of the target voters of an AlterQuorum; without UUID whatever replica has the id."""

    id: int
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """A describe that a majority confirmed, begun in this reconcile.

    `recovered_epoch`: of the last recovery that its leader knows of, 0 for none.
    """

    cluster_id: str | None
    leader: Key
    epoch: int
    voters: tuple[ReplicaView, ...]
    observers: tuple[ReplicaView, ...]
    voters_offset: int
    voters_epoch: int
    voters_committed: bool
    pending_change: bool
    own_epoch_committed: bool
    formed: bool
    initial_voters: int
    target_voters: tuple[TargetVoter, ...] | None = None
    recovered_epoch: int = 0
    """Where an AlterQuorum is heading; None: nowhere."""


@dataclass(frozen=True, slots=True)
class Templates:
    """What the desired StatefulSet of an incarnation hashes to (computed by `desired/`)."""

    template_hash: str
    restart_hash: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A step that was refused, or that had no effect, and is held back until `retry_at` (seconds since 1970)."""

    step: str  # its kind
    subject: str
    """The object or voter that it is about, such as StatefulSet/demo-1-1."""
    reason: str
    """One word in CamelCase, such as QuotaExceeded."""
    message: str
    retry_at: float
    since: float
    times: int = 1  # how often in a row
    tell: bool = True
    """Whether people are told, or this passes by itself within moments."""


@dataclass(frozen=True, slots=True)
class ForeignObject:
    """It has a name of ours and belongs to somebody else: never changed, and its name never used."""

    kind: str
    name: str
    owners: str
    """Kind and name of its owners; empty: it has none."""
    uid: str = ""
    resource_version: str = ""
    cluster_id: str | None = None
    """Of an identity, or that a StatefulSet starts its process with."""


@dataclass(frozen=True, slots=True)
class LabelDrift:
    """An object of ours whose labels have been edited; `labels` are those that are wrong, as they should be."""

    kind: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything one reconcile saw."""

    now: float
    name: str
    generation: int
    wanted: Wanted
    resource_uid: str = ""
    deleting: bool = False
    identities: tuple[Identity, ...] = ()
    stale_objects: tuple[str, ...] = ()
    """Services, ConfigMaps and so on that are missing or differ from what is desired."""
    config_created_at: float | None = None
    """Of the nodes' ConfigMap; None where this look did not read it."""
    drain_floor: int | None = None  # of the disruption budget; None: not known
    label_drift: tuple[LabelDrift, ...] = ()
    foreign_objects: tuple[ForeignObject, ...] = ()
    incarnations: tuple[Incarnation, ...] = ()
    lone_claims: tuple[LoneClaim, ...] = ()
    used_numbers: dict[int, int] = field(default_factory=dict)
    """Node id → highest incarnation number ever seen on a StatefulSet, a pod or a claim, foreign ones included."""
    templates: dict[str, Templates] = field(default_factory=dict)
    """Incarnation name → what it should look like."""
    view: QuorumView | None = None
    hinted_voters: frozenset[Key] | None = None
    """Voters by an unconfirmed description, when there is no confirmed one."""
    older_quorum: QuorumView | None = None
    """Confirmed, and older than what was confirmed before: voters from before a recovery. Nothing is decided by it."""
    known_cluster_id: str | None = None
    """Cluster id in the last status."""
    known_voters: int = 0
    """Number of voters in the last status; reporting, and telling a lost quorum from a slow one."""
    invalid: str | None = None
    """What is wrong with the spec beyond the reach of CEL, such as an unknown storage class."""
    unmakeable: str | None = None  # what of that keeps any member from being made
    unconfirmed_since: float | None = None
    """Since when no describe could be confirmed, by the last status."""
    refusals: tuple[Refusal, ...] = ()
    """Steps that were refused lately, by the API server or by a node."""
    certificates: CertificatesSeen | None = None  # None: the quorum has none
    backups: BackupsSeen | None = None  # None: the spec asks for none
    update: UpdateWanted | None = None  # None: the spec says nothing of how updates are made
    host_rooms: tuple[HostRoom, ...] | None = None
    """Hosts that members may run on, taken or not; None: members may share hosts, or nobody has looked."""
