"""The closed union of steps. One reconcile executes exactly one of them.

Each step contains everything that its execution needs, including preconditions, and a `reason` for users. Every step
is idempotent, and safe if another operator has just executed it.
"""

from dataclasses import dataclass

from quorum_operator.planner.formation_defaults import Defaults
from quorum_operator.planner.object_facts import LabelDrift
from quorum_operator.planner.observed import (
    FailureLatch,
    Founding,
    Incarnation,
    Key,
    LoneClaim,
    StorageChoice,
)
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.planner.update_record import UpdateRecord


@dataclass(frozen=True, slots=True)
class Target:
    """The observed StatefulSet; an action on any other version of it is refused."""

    name: str
    uid: str
    resource_version: str


def target_of(incarnation: Incarnation) -> Target:
    """The StatefulSet of an incarnation: the precondition of every write to it."""
    return Target(incarnation.name, incarnation.uid, incarnation.resource_version)


@dataclass(frozen=True, slots=True)
class VotersPosition:
    """The committed voters record that a membership change builds on (compare-and-set)."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class CreateIdentity:
    """Create an identity (create-only). Its cluster id and founder UUID are generated during execution."""

    index: int
    founder_id: int
    initial_voters: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildIdentity:
    """Recreate a deleted identity (create-only). Without `founding` no member may format a directory under it."""

    index: int
    cluster_id: str
    founding: Founding | None
    formed: bool
    reason: str
    network_policy: bool = False
    """Whether it was formed with a NetworkPolicy, according to its claims."""
    defaults: Defaults = frozenset()
    """Defaults of its formation, according to its claims."""
    tls: bool = False
    """Whether it was formed with certificates, according to its claims or StatefulSets."""
    migration: TlsStage = TlsStage.PLAIN
    """Stage of its TLS migration, according to its StatefulSets."""


@dataclass(frozen=True, slots=True)
class AdoptObject:
    """Own an object of this cluster that has no owner or was given to another one, or as `spec.earlierClaims` confirms."""

    kind: str
    name: str
    uid: str
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplyObjects:
    """Apply Services, ConfigMaps, the token Secret and the disruption budget."""

    objects: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreLabels:
    """Restore edited labels, which Services and the StatefulSet controller depend on."""

    objects: tuple[LabelDrift, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CreateMember:
    """Create the StatefulSet of incarnation `number` of member `node_id` (create-only)."""

    node_id: int
    number: int
    formation: int
    founder: bool
    replaces: int | None
    reason: str
    predecessor: str | None = None
    """StatefulSet of the member whose place it takes, which may still run."""


@dataclass(frozen=True, slots=True)
class RebuildMember:
    """Recreate the deleted StatefulSet of a claim, for the replica on it (create-only)."""

    claim: LoneClaim
    formation: int
    founder: bool
    reason: str


@dataclass(frozen=True, slots=True)
class UpdateMember:
    """Update a StatefulSet's template (OnDelete: nothing restarts)."""

    node_id: int
    number: int
    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class ExpandVolume:
    """Expand a member's claim; nothing restarts."""

    target: Target
    claim: str
    claim_uid: str
    storage: StorageChoice
    reason: str


@dataclass(frozen=True, slots=True)
class RecordReplicaUuid:
    """Record on the StatefulSet the UUID that the process generated."""

    target: Target
    uuid: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordFormed:
    """Record on the identity that the quorum has formed: no directory may be formatted as a voter any more."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordTlsStage:
    """Record the TLS stage on the identity; templates of members depend on it."""

    index: int
    stage: TlsStage
    version: str
    """Resource version of the observed identity."""
    reason: str


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """Record the state of an update on the identity; templates of members depend on it. None removes it."""

    index: int
    record: UpdateRecord | None
    version: str
    """Resource version of the observed identity."""
    reason: str


@dataclass(frozen=True, slots=True)
class LatchFailure:
    """Mark the incarnation as failed."""

    target: Target
    latch: FailureLatch
    reason: str


@dataclass(frozen=True, slots=True)
class Unlatch:
    """Revoke a failure mark that came from an indirect sign. `latched_at`: when it was written; it still counts as a
    failure.
    """

    target: Target
    latched_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class BeginRecovery:
    """Record the confirmed recovery on the survivor."""

    target: Target
    survivor: str
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUpRecovery:
    """Cancel the recovery."""

    target: Target
    survivor: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScaleToZero:
    """Stop a member's pod; its claim is kept."""

    target: Target
    why: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartMember:
    """Scale a stopped member that should run to one."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class AddVoter:
    """Make a caught-up observer a voter.

    `count_newcomer`: it counts as live in the node's own safety check (replacementOrder AddFirst).
    """

    key: Key
    incarnation: str
    position: VotersPosition
    count_newcomer: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RemoveVoter:
    """Remove a voter from the voter set."""

    key: Key
    position: VotersPosition
    reason: str


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """Ask the leader to transfer leadership."""

    leader: Key
    successor: Key
    reason: str


@dataclass(frozen=True, slots=True)
class RestartMember:
    """Delete the pod, so that it is recreated from the new template.

    The choice is first written on the identity, conditional on the observed version: of two operators only one
    succeeds, and the choice is visible before the pod is deleted.
    """

    pod: str
    pod_uid: str
    identity: int
    identity_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteStrayPod:
    """Delete a pod whose StatefulSet was deleted; its claim is kept."""

    pod: str
    pod_uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteIncarnation:
    """Delete the StatefulSet of a removed member; its claim follows the deletion policy."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class DiscardVolume:
    """Make the StatefulSet of a failed member its claim's owner, so that Kubernetes deletes both together."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class GuardDrains:
    """Set `minAvailable` of the disruption budget."""

    least_ready: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait: a change is due but not possible now."""

    reason: str
    blocked_by: str
    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Nothing:
    """The state matches the spec."""

    reason: str


Step = (
    CreateIdentity
    | RebuildIdentity
    | AdoptObject
    | ApplyObjects
    | RestoreLabels
    | CreateMember
    | RebuildMember
    | UpdateMember
    | ExpandVolume
    | RecordReplicaUuid
    | RecordFormed
    | RecordTlsStage
    | RecordUpdate
    | LatchFailure
    | Unlatch
    | BeginRecovery
    | GiveUpRecovery
    | ScaleToZero
    | StartMember
    | AddVoter
    | RemoveVoter
    | TransferLeadership
    | RestartMember
    | DeleteStrayPod
    | DeleteIncarnation
    | DiscardVolume
    | GuardDrains
    | Wait
    | Nothing
)


def changes_something(step: Step) -> bool:
    """Whether executing it writes anything."""
    return not isinstance(step, Wait | Nothing)
