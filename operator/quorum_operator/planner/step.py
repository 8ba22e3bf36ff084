"""The closed union of steps. One reconcile executes exactly one of them.

Each step carries all that its execution needs, its preconditions included, and a `reason` for
people. Every step is safe to repeat and safe when another operator has just done the same.
"""

from dataclasses import dataclass

from quorum_operator.planner.observed import (
    FailureLatch,
    Founding,
    Key,
    LabelDrift,
    LoneClaim,
    StorageChoice,
)
from quorum_operator.planner.tls_stage import TlsStage
from quorum_operator.planner.update_record import UpdateRecord


@dataclass(frozen=True, slots=True)
class Target:
    """The very StatefulSet that was judged: acting on any other version of it is refused."""

    name: str
    uid: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class VotersPosition:
    """The committed voters record that a membership change builds on (compare-and-set)."""

    offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class CreateIdentity:
    """Create-only: cluster id and founder UUID are drawn when it is executed."""

    index: int
    founder_id: int
    initial_voters: int
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildIdentity:
    """Create-only: an identity that was deleted. Without `founding` nobody may format under it."""

    index: int
    cluster_id: str
    founding: Founding | None
    formed: bool
    reason: str
    network_policy: bool = False
    """It was formed with a NetworkPolicy, as its claims say."""
    tls: bool = False
    """It was formed with certificates, as its claims or its StatefulSets say."""
    migration: TlsStage = TlsStage.PLAIN
    """How far it was on its way to TLS, as its StatefulSets say."""


@dataclass(frozen=True, slots=True)
class AdoptObject:
    """Make an object without an owner this resource's, as `spec.earlierClaims` confirms."""

    kind: str
    name: str
    uid: str
    resource_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApplyObjects:
    """Bring services, ConfigMaps, the token Secret and the disruption budget up to date."""

    objects: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class RestoreLabels:
    """Put labels back that were edited: services and the StatefulSet controller go by them."""

    objects: tuple[LabelDrift, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class CreateMember:
    """Create-only: the StatefulSet of incarnation `number` of member `node_id`."""

    node_id: int
    number: int
    formation: int
    founder: bool
    replaces: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class RebuildMember:
    """Create-only: the StatefulSet that a claim has lost, for the replica that is on it."""

    claim: LoneClaim
    formation: int
    founder: bool
    reason: str


@dataclass(frozen=True, slots=True)
class UpdateMember:
    """Bring a StatefulSet's template up to date. OnDelete: nothing restarts by it."""

    node_id: int
    number: int
    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class ExpandVolume:
    """Ask for more on a member's own claim; nothing restarts by it."""

    target: Target
    claim: str
    claim_uid: str
    storage: StorageChoice
    reason: str


@dataclass(frozen=True, slots=True)
class RecordReplicaUuid:
    """Write the UUID that the process generated on its StatefulSet."""

    target: Target
    uuid: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecordFormed:
    """Mark the identity: from here on nobody may format as a voter, and nothing forms again."""

    index: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordTlsStage:
    """Write the stage on the identity: templates of members follow from it."""

    index: int
    stage: TlsStage
    version: str
    """Of the identity that it was decided by."""
    reason: str


@dataclass(frozen=True, slots=True)
class RecordUpdate:
    """Write on the identity how far an update is; templates of members follow from it. None: take it off."""

    index: int
    record: UpdateRecord | None
    version: str
    """Of the identity that it was decided by."""
    reason: str


@dataclass(frozen=True, slots=True)
class LatchFailure:
    """Write the failure on the incarnation, for good."""

    target: Target
    latch: FailureLatch
    reason: str


@dataclass(frozen=True, slots=True)
class Unlatch:
    """Take a latch back that came from a circumstance. `latched_at`: when it was written, which counts as a failure."""

    target: Target
    latched_at: float
    reason: str


@dataclass(frozen=True, slots=True)
class BeginRecovery:
    """Write on the survivor that a lost quorum goes on from it, as it was confirmed."""

    target: Target
    survivor: str
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUpRecovery:
    """Take that back."""

    target: Target
    survivor: str
    reason: str


@dataclass(frozen=True, slots=True)
class ScaleToZero:
    """Stop a member's pod; its claim stays."""

    target: Target
    why: str
    reason: str


@dataclass(frozen=True, slots=True)
class StartMember:
    """Scale a member that should run back to one."""

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
    """Take a voter out of the voter set."""

    key: Key
    position: VotersPosition
    reason: str


@dataclass(frozen=True, slots=True)
class TransferLeadership:
    """Ask the leader to hand over."""

    leader: Key
    successor: Key
    reason: str


@dataclass(frozen=True, slots=True)
class RestartMember:
    """Delete the pod, so that it comes back from the new template.

    The pick is first written on the identity, bound to the version that was seen: of two operators
    only one picks, and whoever looks later sees the pick before the pod has gone.
    """

    pod: str
    pod_uid: str
    identity: int
    identity_version: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteIncarnation:
    """Delete the StatefulSet of a member that left; its claim follows the deletion policy."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class DiscardVolume:
    """Make the StatefulSet of a failed member its claim's owner, so that Kubernetes deletes both together."""

    target: Target
    reason: str


@dataclass(frozen=True, slots=True)
class GuardDrains:
    """Let the disruption budget keep so many pods ready."""

    least_ready: int
    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Something is to be done, but not now."""

    reason: str
    blocked_by: str
    retry_after_s: float


@dataclass(frozen=True, slots=True)
class Nothing:
    """What is wanted is there."""

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
    | DeleteIncarnation
    | DiscardVolume
    | GuardDrains
    | Wait
    | Nothing
)


def changes_something(step: Step) -> bool:
    """Whether executing it writes anything anywhere."""
    return not isinstance(step, Wait | Nothing)
