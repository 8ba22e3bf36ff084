"""The observation of one reconcile: the planner's only input.

Owns plain facts, gathered by `kube/observe.py` and `quorum_client.py`: the wanted state, the identity objects, the
incarnations with pod, claim, volume and host, the description of the quorum, and a clock reading (seconds since
1970). It contains no judgement, and nothing about how the facts were gathered. Replica UUIDs are text in Kafka's 22-character form.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from quorum_node.records.identity import uuid_text
from quorum_node.survivor import Survivor
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.backups import BackupsSeen
from quorum_operator.planner.certificates_seen import CertificatesSeen, LoadedCertificates
from quorum_operator.planner.formation_defaults import Defaults
from quorum_operator.planner.host_capacity import HostCapacity
from quorum_operator.planner.object_facts import (
    ForeignObject,
    LabelDrift,
    NotMade,
    Refusal,
    Suspicion,
    Templates,
)
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
    """The storage request of a member's claim. Sizes are quantities: equal values are equal."""

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
    unreachable_after_s: float | None = None  # None: wait for members on unavailable hosts
    recovery: Confirmation | None = None
    adopt: str | None = None
    """Cluster id whose claims of an earlier resource are adopted."""
    leave_claims: bool = False  # keep claims of an earlier resource unused and form a new quorum
    cluster_id: str | None = None  # requested for a new quorum
    keep_failed_s: float | None = None  # for volumes of failed members; None: no limit
    restores: bool = False  # a new quorum starts from a backup: first one voter, then the others
    tls_mode: TlsMode | None = None  # None: not set in the spec


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity object, one per formation. `index` counts from 1."""

    index: int
    cluster_id: str
    founder_id: int
    founder_uuid: str
    initial_voters: int
    formed: bool
    """The formation may be complete: no directory may be formatted as a voter any more."""
    resource_version: str = ""
    restarting: str | None = None  # UID of the pod chosen last (see `RestartMember`)
    network_policy: bool = False  # formed with a policy: default if the spec does not set it
    defaults: Defaults = frozenset()  # of the version that formed the quorum
    tls: bool = False  # formed with certificates; the spec can't revert this
    migration: TlsStage = TlsStage.PLAIN  # progress of a quorum that was formed without
    update: UpdateRecord | None = None  # None: no revision that all members have run is recorded

    @property
    def tls_stage(self) -> TlsStage:
        """Current TLS stage of the members."""
        return TlsStage.CLOSED if self.tls else self.migration


@dataclass(frozen=True, slots=True)
class Founding:
    """The permission to form a quorum in the founder's arguments."""

    founder_id: int
    founder_uuid: str
    initial_voters: int


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A member's pod. `exit_code`: of the last container that exited in this pod."""

    name: str
    uid: str
    created_at: float
    ip: str | None = None
    host: str | None = None
    phase: str = "Running"
    ready: bool = True
    deleting: bool = False
    ends_at: float | None = (
        None  # end of the time that it has to terminate; None: it is not deleted
    )
    held_by: tuple[str, ...] = ()  # finalizers that delay its deletion
    running: bool = True  # its container runs now
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
    """Last failed mount of its data volume; None if there is none or it is over."""
    mount_failure: str | None = None
    mount_obstacle: str | None = None
    """Why it waits for a volume, which may be another one, or a fault that is not the disk's."""
    unusable_volume: str | None = None
    """The container runtime's message about a mounted data volume that can't be read."""
    unschedulable: str | None = None
    restart_hash: str | None = None
    outdated: bool = False
    """The StatefulSet's template has changed since the pod was created."""
    runs_other: bool = False
    """The changed template has a different image, arguments or resources."""
    tls_stage: TlsStage = TlsStage.CLOSED
    """TLS stage of its process, according to its arguments."""
    token_refused_since: float | None = None
    """Time since which its node rejects the current admin token."""


@dataclass(frozen=True, slots=True)
class StrayPod:
    """A member's pod whose StatefulSet was deleted."""

    node_id: int
    number: int
    pod: PodFacts


@dataclass(frozen=True, slots=True)
class FailureLatch:
    """Failure mark of an incarnation; it can be revoked only if it came from an indirect sign."""

    reason: str
    evidence: str
    at: float
    first_sign_at: float


@dataclass(frozen=True, slots=True)
class Marks:
    """Annotations of a claim, which survive its StatefulSet.

    A claim with a `uuid` has all its marks: they are written together, and a failure, fence or removal is written
    before the member is stopped.
    """

    uuid: str | None = None  # replica UUID of the directory on the volume
    cluster_id: str | None = None
    resource_uid: str | None = None  # UID of the MetadataQuorum that it was created for
    formation: int | None = None
    failed: FailureLatch | None = None
    fenced: str | None = None
    """Why this member was stopped: the quorum is being recovered from another one."""
    removed: str | None = None  # why no member uses it any more
    recovery: str | None = None
    """The annotated recovery that makes, or made, its replica the sole voter."""
    tls: bool = False  # its replica speaks TLS only; never reverted
    network_policy: bool = False  # the quorum was formed with a NetworkPolicy
    defaults: Defaults = frozenset()  # of the quorum's formation

    @property
    def bars(self) -> str | None:
        """The mark that forbids members to use the claim, as text."""
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
    """Whether the zone has several Nodes and none is ready."""

    @property
    def state(self) -> str:
        """For users."""
        if self.ready:
            return "ready"
        return "not ready" if self.exists else "gone"


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
    network_policy: bool = False  # as in `marks`
    defaults: Defaults = frozenset()  # as in `marks`
    storage_class: str | None = None  # as stored by the API server
    owners: frozenset[str] = frozenset()  # UIDs
    expandable: bool = False
    """Whether its class allows online expansion. Only read if a larger size is wanted."""
    expansion: str | None = None  # why its volume is smaller than requested, if it is


@dataclass(frozen=True, slots=True)
class VolumeFacts:
    """The PersistentVolume of a claim. `hosts`: the nodes that it is local to, if any."""

    name: str
    phase: str = "Bound"
    hosts: tuple[str, ...] = ()
    hosts_exist: bool = True
    """False only if the API server confirmed that none of `hosts` exists."""


@dataclass(frozen=True, slots=True)
class LoneClaim:
    """A claim of a member without a StatefulSet."""

    node_id: int
    number: int
    member: str
    """Name of the missing StatefulSet."""
    claim: ClaimFacts
    storage: StorageChoice
    in_use: bool = False
    """Whether a pod of this member uses it and is not being deleted: until that pod ends the claim and its data remain,
    even if the claim is being deleted."""

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted and no pod holds it back."""
        return self.claim.deleting and not self.in_use

    @property
    def key(self) -> Key | None:
        """The replica key on it, if known."""
        uuid = self.claim.marks.uuid
        return None if uuid is None else Key(self.node_id, uuid)


@dataclass(frozen=True, slots=True)
class HeldLog:
    """The log of a member's process, and the latest voters in it, committed or not."""

    last_epoch: int
    """Epoch of the last record."""
    end_offset: int
    committed_offset: int
    """High watermark known to the replica."""
    leader_epoch: int
    """The newest epoch known to the replica."""
    voters: frozenset[Key]

    @property
    def length(self) -> tuple[int, int]:
        """Raft's comparison of logs: the longer of two logs has all committed records of the other one."""
        return (self.last_epoch, self.end_offset)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The report of a member's process in this reconcile (GET /v1/node)."""

    uuid: str
    cluster_id: str | None
    role: str
    formed: bool
    caught_up: bool
    storage: str  # ok, failed or full
    storage_detail: str | None = None
    log: HeldLog | None = None  # None: this version of the node does not report it
    certificates: LoadedCertificates | None = None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One StatefulSet: the n-th incarnation of a member, with its pod, claim and volume."""

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
    host: HostFacts | None = None  # only for a member whose pod is not ready
    unreachable_since: float | None = None
    """Time since which it is unreachable, from the last status."""
    unlatched_at: tuple[float, ...] = ()  # times at which failure marks were revoked
    stopped: str | None = None  # why the operator scaled it to zero
    replaces: int | None = None
    """Number of the failed incarnation that this one replaces."""
    predecessor: str | None = None
    """StatefulSet of the member whose place it takes."""
    rebuilt: bool = False  # its StatefulSet was recreated for its claim
    recovery: Survivor | None = None
    """The recovery that makes its replica the sole voter."""
    recovery_given_up: bool = False
    """Whether that recovery was cancelled; it may have been executed anyway."""
    template_hash: str | None = None
    drift: str | None = None
    """Changes to the StatefulSet by other clients."""
    immutable_drift: str | None = None
    """A difference of the StatefulSet that only a new one ends."""
    restart_hash: str | None = None
    cluster_id: str | None = None
    """Cluster id in the arguments of its process."""
    founding: Founding | None = None
    """The permission of its process to form a quorum; None if it has none."""
    tls_stage: TlsStage = TlsStage.PLAIN
    """TLS stage of its next process."""
    notes_lost: frozenset[str] = frozenset()
    """Which of `uuid`, `failed` and `stopped` are only on its claim and not on the StatefulSet."""
    held_by: tuple[str, ...] = ()  # finalizers that delay the deletion of its StatefulSet
    pod: PodFacts | None = None
    not_made: NotMade | None = None
    """Why the pod could not be created."""
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
    def host_away(self) -> HostFacts | None:
        """Its host, if that is not ready or gone: what its kubelet has reported may be outdated."""
        return None if self.host is None or self.host.ready else self.host

    @property
    def should_run(self) -> bool:
        """Whether it is neither failed nor stopped."""
        return self.failed is None and self.stopped is None and self.replicas > 0

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
    """A replica as described by the leader. Informational: `went_back`, (acknowledged, current) end offsets of one that
    lost records; `damaged_from`, the offset from which on it receives damaged records."""

    key: Key
    fetching: bool
    caught_up: bool
    lag: int = 0
    went_back: tuple[int, int] | None = None
    damaged_from: int | None = None


@dataclass(frozen=True, slots=True)
class TargetVoter:
    """A target voter of an AlterQuorum; without UUID any replica with the id."""

    id: int
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class QuorumView:
    """A describe confirmed by a majority in this reconcile. `recovered_epoch`: of the last recovery known to its
    leader, 0 for none.
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
    """Target voters of an AlterQuorum; None if there are none."""
    recovered_epoch: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """All facts of one reconcile."""

    now: float
    name: str
    generation: int
    wanted: Wanted
    resource_uid: str = ""
    deleting: bool = False
    held_by: tuple[str, ...] = ()  # finalizers that block the deletion of the resource
    identities: tuple[Identity, ...] = ()
    stale_objects: tuple[str, ...] = ()  # Services and similar, missing or not as desired
    mounts_created_at: float | None = None  # the newest of configuration and token; None: not read
    drain_floor: int | None = None  # minAvailable of the disruption budget; None: not known
    label_drift: tuple[LabelDrift, ...] = ()
    foreign_objects: tuple[ForeignObject, ...] = ()
    incarnations: tuple[Incarnation, ...] = ()
    lone_claims: tuple[LoneClaim, ...] = ()
    stray_pods: tuple[StrayPod, ...] = ()
    used_numbers: dict[int, int] = field(default_factory=dict)
    """Node id → highest incarnation number ever seen on a StatefulSet, a pod or a claim, foreign ones included."""
    templates: dict[str, Templates] = field(default_factory=dict)  # desired, by incarnation name
    view: QuorumView | None = None
    hinted_voters: frozenset[Key] | None = None
    """Voters of an unconfirmed description, if there is no confirmed one."""
    older_quorum: QuorumView | None = None
    """A confirmed description older than one confirmed before: voters from before a recovery. Only reported."""
    epochs_edited: bool = False
    """The last status contains epochs that the quorum has never reached (`edited_epochs.py`)."""
    known_cluster_id: str | None = None  # cluster id in the last status
    known_voters: int = 0
    """Number of voters in the last status; for reports, and to distinguish a lost quorum from a slow one."""
    invalid: str | None = None
    """Problems of the spec that CEL can't check, such as an unknown storage class."""
    unmakeable: str | None = None  # the problem that prevents the creation of any member
    unconfirmed_since: float | None = None  # no describe was confirmed since; from the last status
    refusals: tuple[Refusal, ...] = ()  # steps refused recently by the API server or a node
    certificates: CertificatesSeen | None = None  # None: the quorum has no certificates
    backups: BackupsSeen | None = None  # None: no backups in the spec
    update: UpdateWanted | None = None  # None: spec.update is not set
    host_capacities: tuple[HostCapacity, ...] | None = None
    """Hosts that members may run on, in use or not; None: members may share hosts, or the hosts were not read."""
