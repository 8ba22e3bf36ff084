"""The status of a MetadataQuorum: its field names and their meaning. Makes no decisions."""

from enum import StrEnum

from pydantic import Field

from quorum_operator.backup_crd import BackupStatus
from quorum_operator.crd_model import CrdModel, WrittenTime
from quorum_operator.quorum_loss_crd import QuorumLossStatus
from quorum_operator.tls_crd import TlsStatus
from quorum_operator.update_crd import UpdateStatus


class LeaderStatus(CrdModel):
    """The leader as of the last confirmed describe."""

    id: int = Field(description="Its node id.")
    epoch: int = Field(description="The epoch that it leads in.")


class SuspectedStatus(CrdModel):
    """An indirect sign that counts as a failed disk once it has persisted for spec.repair.debounceSeconds."""

    reason: str = Field(description="Reason in CamelCase.")
    subject: str = Field(description="UID of the pod, or name of the volume, that shows it.")
    since: WrittenTime = Field(
        description="Time since which it has been observed without interruption."
    )


class MemberStatus(CrdModel):
    """One member: pod and volume of an incarnation, and its role in the quorum."""

    id: int = Field(description="Node id.")
    incarnation: int | None = Field(
        default=None,
        description="Incarnation number of this node id; a successor has the next number.",
    )
    uuid: str | None = Field(default=None, description="Directory id of its replica.")
    role: str | None = Field(
        default=None, description="Role that its process reports, such as leader or observer."
    )
    voter: bool = Field(default=False, description="Whether it is in the committed voter set.")
    lag: int | None = Field(
        default=None,
        description="Records that it has not replicated yet; absent while it does not fetch.",
    )
    ready: bool = Field(default=False, description="Whether its pod is ready.")
    pod: str | None = Field(default=None, description="Name of its pod.")
    pvc: str | None = Field(default=None, description="Name of its claim.")
    node: str | None = Field(default=None, description="Host (Node) that its pod is bound to.")
    condition: str | None = Field(
        default=None, description="Problem of the member; absent if it is healthy."
    )
    unreachable_since: WrittenTime | None = Field(
        default=None,
        description="Time since which its host is not ready or deleted and the member is unreachable.",
    )
    suspected: SuspectedStatus | None = Field(
        default=None,
        description="Sign of a failed disk that has not persisted long enough to count.",
    )


class PlanStatus(CrdModel):
    """The next step, and what it waits for."""

    step: str = Field(description="Kind of the step; Nothing if the state matches the spec.")
    reason: str = Field(description="Explanation.")
    blocked_by: str | None = Field(default=None, description="What the step waits for.")
    since: WrittenTime | None = Field(
        default=None, description="Time since which this is the plan."
    )


class FailureTolerance(CrdModel):
    """Number of further voters that may fail before the quorum is lost."""

    now: int = Field(description="At this moment.")
    after_next_step: int = Field(description="After the planned step.")


class Condition(CrdModel):
    """A Kubernetes condition. docs/how-to/conditions has a page for each type."""

    type: str = Field(description="Which condition.")
    status: str = Field(description="True or False.")
    reason: str = Field(description="Reason in CamelCase.")
    message: str = Field(description="Details, and what to do.")
    last_transition_time: WrittenTime = Field(description="Time of the last change of the status.")
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that the condition was computed from."
    )


class KeptVolumeStatus(CrdModel):
    """The volume of a failed member, which is not used any more."""

    pvc: str = Field(description="Name of its claim.")
    id: int = Field(description="Node id of the member.")
    incarnation: int = Field(description="Its incarnation number.")
    reason: str = Field(description="Why it failed.")
    failed_at: WrittenTime = Field(description="Time at which the failure was recorded.")
    deleted_after: WrittenTime | None = Field(
        default=None,
        description="Time after which it is deleted, if the quorum is healthy; absent if it is kept.",
    )


class RepairStatus(CrdModel):
    """One replacement of a failed member, from the first sign to the last voter change."""

    id: int = Field(description="Node id of the member that failed.")
    incarnation: int = Field(description="Its incarnation number.")
    from_uuid: str | None = Field(default=None, description="Directory id of the failed replica.")
    to_uuid: str | None = Field(default=None, description="Directory id of its successor.")
    reason: str = Field(description="Sign by which its disk was found to have failed.")
    started_at: WrittenTime = Field(description="Time of the first sign.")
    finished_at: WrittenTime | None = Field(
        default=None, description="Time at which the number of voters was restored."
    )
    seconds: float | None = Field(default=None, description="Seconds between the two.")


class Phase(StrEnum):
    """The phase in one word; the conditions have the details."""

    PENDING = "Pending"
    FORMING = "Forming"
    READY = "Ready"
    SCALING = "Scaling"
    REPAIRING = "Repairing"
    DEGRADED = "Degraded"
    QUORUM_LOST = "QuorumLost"
    RECOVERING = "Recovering"
    DISK_FULL = "DiskFull"
    PAUSED = "Paused"
    DELETING = "Deleting"


class MetadataQuorumStatus(CrdModel):
    """The observed state."""

    phase: Phase = Phase.PENDING
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that this status was computed from."
    )
    replicas: int = Field(
        default=0, description="Number of members that have a pod and have not failed."
    )
    ready_replicas: int = Field(default=0, description="Number of members whose pod is ready.")
    voters: int = Field(default=0, description="Size of the last confirmed voter set.")
    selector: str | None = Field(
        default=None, description="Label selector of the pods, for kubectl scale and autoscalers."
    )
    cluster_id: str | None = Field(default=None, description="Cluster id of the quorum.")
    leader: LeaderStatus | None = None
    newest_epoch: int | None = Field(
        default=None,
        description=(
            "Highest epoch that a majority has confirmed for this cluster id. Answers from lower epochs are ignored."
        ),
    )
    recovered_epoch: int | None = Field(
        default=None,
        description=(
            "Last recovery that a confirmed leader reported. Answers of replicas that do not know it are ignored."
        ),
    )
    members: list[MemberStatus] = Field(
        default=[], description="Members that run or are voters, ordered by id and incarnation."
    )
    plan: PlanStatus | None = None
    failure_tolerance: FailureTolerance | None = None
    quorum_loss: QuorumLossStatus | None = None
    tls: TlsStatus | None = None
    backup: BackupStatus | None = None
    update: UpdateStatus | None = None
    kept_volumes: list[KeptVolumeStatus] = Field(
        default=[], description="Volumes of failed members that are kept."
    )
    conditions: list[Condition] = Field(
        default=[],
        description="Conditions, one entry for each type.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    repairs: list[RepairStatus] = Field(
        default=[], description="The last ten replacements of failed members."
    )
