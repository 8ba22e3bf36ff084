"""The PartitionReassignment resource: pydantic models of its spec and its status.

Owns the field names, defaults, bounds and validation rules of `partitionreassignments.metadataquorum.dev`
(v1alpha1), as `crd.py` does for MetadataQuorum. Knows nothing of the Kubernetes API or of planning.

An object may have 1.5 MiB at most (etcd's limit): the bounds keep the largest that is let in below that,
with what the API server keeps of who wrote which field.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from quorum_operator.crd import rule, rules
from quorum_operator.status_crd import Condition

REASSIGNMENT_KIND = "PartitionReassignment"
REASSIGNMENT_PLURAL = "partitionreassignments"
MAX_PARTITIONS = 1000
MAX_REPLICAS = 16
MAX_PROBLEMS = 20
_Number = Annotated[int, Field(ge=0, le=2**31 - 1)]


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class PartitionTarget(_Model):
    """The replicas that a partition shall have, the preferred leader first."""

    topic: str = Field(min_length=1, max_length=249, pattern="^[a-zA-Z0-9._-]+$")
    partition: _Number
    replicas: list[_Number] = Field(
        min_length=1,
        max_length=MAX_REPLICAS,
        json_schema_extra=rules(
            rule(
                "self.all(id, self.indexOf(id) == self.lastIndexOf(id))",
                "replicas name a broker twice: a broker holds one replica of a partition",
            ),
        ),
        description="Ids of brokers, in order of preference.",
    )


class PartitionReassignmentSpec(_Model):
    """What is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!oldSelf.cancel || self.cancel",
                "spec.cancel can't be taken back: make a new PartitionReassignment",
            ),
        )
    )

    quorum: str = Field(
        min_length=1,
        max_length=40,
        description="Name of the MetadataQuorum, in the same namespace, whose brokers have the partitions.",
        json_schema_extra=rules(
            rule(
                "self == oldSelf",
                "spec.quorum is immutable: make a new PartitionReassignment",
            )
        ),
    )
    partitions: list[PartitionTarget] = Field(
        min_length=1,
        max_length=MAX_PARTITIONS,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["topic", "partition"],
            **rules(
                rule(
                    "self == oldSelf",
                    "spec.partitions is immutable, as some of it may have been done: set spec.cancel, or make"
                    " a new PartitionReassignment, which begins when this one has ended",
                )
            ),
        },
        description="Partitions and the replicas that they shall have. What is in no list stays where it is.",
    )
    max_moving_partitions: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="No partition begins to move while so many of the cluster's are moving, whoever moves them.",
    )
    paused: bool = Field(
        default=False, description="Begin nothing more; what is moving goes on to its end."
    )
    cancel: bool = Field(
        default=False,
        description="Take back what is moving and begin nothing more; what has arrived stays. For good.",
    )


class ReassignmentPhase(StrEnum):
    """One word for people; the last three are final."""

    PENDING = "Pending"
    RUNNING = "Running"
    PAUSED = "Paused"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


FINAL = frozenset(
    {ReassignmentPhase.COMPLETED, ReassignmentPhase.FAILED, ReassignmentPhase.CANCELLED}
)


class PartitionProblem(_Model):
    """A partition that can't be moved as it is wanted."""

    topic: str = Field(description="Name of the topic.")
    partition: int = Field(description="Number of the partition.")
    reason: str = Field(description="Why it can't be moved, in one word.")
    message: str = Field(description="Why, and what to do.")


class PartitionReassignmentStatus(_Model):
    """What is."""

    phase: ReassignmentPhase = ReassignmentPhase.PENDING
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that this status was made from."
    )
    total: int = Field(default=0, description="Partitions of this resource.")
    done: int = Field(default=0, description="Partitions that have the replicas that are wanted.")
    moving: int = Field(default=0, description="Partitions on their way there.")
    waiting: int = Field(default=0, description="Partitions that have not begun.")
    failed: int = Field(default=0, description="Partitions that can't be moved.")
    started_at: str | None = Field(default=None, description="When the first move began.")
    finished_at: str | None = Field(default=None, description="When all was done, or ended.")
    problems: list[PartitionProblem] = Field(
        default=[], description=f"The first {MAX_PROBLEMS} partitions that can't be moved, and why."
    )
    conditions: list[Condition] = Field(
        default=[],
        description="What is so, one entry for each type.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
