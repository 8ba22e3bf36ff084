"""The status of a MetadataQuorum. Owns its field names, and what each of them means; decides nothing of it."""

from enum import StrEnum

from pydantic import Field

from quorum_operator.backup_crd import BackupStatus
from quorum_operator.crd_model import CrdModel
from quorum_operator.quorum_loss_crd import QuorumLossStatus
from quorum_operator.tls_crd import TlsStatus
from quorum_operator.update_crd import UpdateStatus


class LeaderStatus(CrdModel):
    """The leader as of the last confirmed describe."""

    id: int = Field(description="Its node id.")
    epoch: int = Field(description="The epoch that it leads in.")


class SuspectedStatus(CrdModel):
    """A circumstance that counts as a failed disk if it lasts as long as spec.repair says."""

    reason: str = Field(description="The circumstance, in one word.")
    subject: str = Field(description="The pod, by UID, or the volume that shows it.")
    since: str = Field(description="When the operator saw it first; without a break since then.")


class MemberStatus(CrdModel):
    """One member: the pod and the volume of an incarnation, and its place in the quorum."""

    id: int = Field(description="Node id.")
    incarnation: int | None = Field(
        default=None, description="Which life of this node id; a successor has the next number."
    )
    uuid: str | None = Field(default=None, description="Directory id of its replica.")
    role: str | None = Field(
        default=None, description="What its process says that it is, such as leader or observer."
    )
    voter: bool = Field(default=False, description="It is in the committed voter set.")
    lag: int | None = Field(
        default=None,
        description="Records that it has not replicated yet; none while it does not fetch.",
    )
    ready: bool = Field(default=False, description="Its pod is ready.")
    pod: str | None = Field(default=None, description="Name of its pod.")
    pvc: str | None = Field(default=None, description="Name of its claim.")
    node: str | None = Field(default=None, description="Host (Node) that its pod is bound to.")
    condition: str | None = Field(
        default=None, description="What is wrong with it; left out for a member that is well."
    )
    unreachable_since: str | None = Field(
        default=None,
        description="Since when its host is not ready or gone and nobody hears the member.",
    )
    suspected: SuspectedStatus | None = Field(
        default=None,
        description="Sign of a failed disk that has not lasted long enough to count.",
    )


class PlanStatus(CrdModel):
    """The next move, and what it waits for."""

    step: str = Field(description="Kind of the step; Nothing where all is as wanted.")
    reason: str = Field(description="Why, in words.")
    blocked_by: str | None = Field(default=None, description="What it waits for.")
    since: str | None = Field(default=None, description="Since when this is the plan.")


class FailureTolerance(CrdModel):
    """How many more voters may fail before the quorum is lost."""

    now: int = Field(description="At this moment.")
    after_next_step: int = Field(description="When the planned step is done.")


class Condition(CrdModel):
    """A Kubernetes condition. docs/how-to/conditions has a page for each type."""

    type: str = Field(description="Which condition.")
    status: str = Field(description="True or False.")
    reason: str = Field(description="Why, in one word.")
    message: str = Field(description="What is so, and what to do.")
    last_transition_time: str = Field(description="Since when the status is what it is.")
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that it was judged by."
    )


class KeptVolumeStatus(CrdModel):
    """The volume of a failed member, which no member runs on any more."""

    pvc: str = Field(description="Name of its claim.")
    id: int = Field(description="Node id of the member.")
    incarnation: int = Field(description="Which life of that member.")
    reason: str = Field(description="Why it failed.")
    failed_at: str = Field(description="When that was noted.")
    deleted_after: str | None = Field(
        default=None,
        description="From when on it is deleted, if the quorum is whole; left out where it is kept.",
    )


class RepairStatus(CrdModel):
    """One replacement of a failed member, from the first sign to the last voter change."""

    id: int = Field(description="Node id of the member that failed.")
    incarnation: int = Field(description="Which life of it.")
    from_uuid: str | None = Field(default=None, description="Directory id of the failed replica.")
    to_uuid: str | None = Field(default=None, description="Directory id of its successor.")
    reason: str = Field(description="By which sign its disk counts as failed.")
    started_at: str = Field(description="When the first sign was seen.")
    finished_at: str | None = Field(
        default=None, description="When all wanted voters were there again."
    )
    seconds: float | None = Field(default=None, description="From the one to the other.")


class Phase(StrEnum):
    """One word for people; the conditions carry the detail."""

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
    """What is."""

    phase: Phase = Phase.PENDING
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that this status was made from."
    )
    replicas: int = Field(default=0, description="Members that have a pod and have not failed.")
    ready_replicas: int = Field(default=0, description="Members whose pod is ready.")
    voters: int = Field(default=0, description="Size of the voter set, as last confirmed.")
    selector: str | None = Field(
        default=None, description="Label selector of the pods, for kubectl scale and autoscalers."
    )
    cluster_id: str | None = Field(default=None, description="Cluster id of the quorum.")
    leader: LeaderStatus | None = None
    newest_epoch: int | None = Field(
        default=None,
        description="The highest epoch that a majority has confirmed for this cluster id; a quorum in a lower one is not believed.",
    )
    recovered_epoch: int | None = Field(
        default=None,
        description="The last recovery that a confirmed leader knew of; a quorum that knows nothing of it is not believed.",
    )
    members: list[MemberStatus] = Field(
        default=[], description="Members that run or are voters, by id and incarnation."
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
        description="What is so, one entry for each type.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
    repairs: list[RepairStatus] = Field(
        default=[], description="The last ten replacements of failed members."
    )
