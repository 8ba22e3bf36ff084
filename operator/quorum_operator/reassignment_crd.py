"""The PartitionReassignment resource: pydantic models of its spec and its status.

Owns the field names, defaults, limits and validation rules of `partitionreassignments.metadataquorum.dev`, like
`crd.py` for MetadataQuorum. Knows nothing of the Kubernetes API or of planning. The limits keep the largest object
below etcd's limit of 1.5 MiB, including managedFields.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from quorum_operator.crd import rule, rules
from quorum_operator.crd_model import WrittenTime
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
    """The wanted replicas of a partition, the preferred leader first."""

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
                "spec.cancel can't be undone: create a new PartitionReassignment",
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
                "spec.quorum is immutable: create a new PartitionReassignment",
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
                    "spec.partitions is immutable, because part of it may be done: set spec.cancel, or create a new "
                    "PartitionReassignment, which starts when this one has ended",
                )
            ),
        },
        description="Partitions and their wanted replicas. Other partitions are not changed.",
    )
    max_moving_partitions: int = Field(
        default=20,
        ge=1,
        le=1000,
        description=(
            "Maximum number of partitions of the cluster that may be moving, whoever started the moves, when this "
            "resource starts another one."
        ),
    )
    paused: bool = Field(
        default=False, description="Start no further moves. Moves in progress continue."
    )
    cancel: bool = Field(
        default=False,
        description="Cancel moves in progress and start no further ones. Completed moves stay. Can't be undone.",
    )


class ReassignmentPhase(StrEnum):
    """The phase; the last three are final."""

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
    """A partition that can't be moved as requested."""

    topic: str = Field(description="Name of the topic.")
    partition: int = Field(description="Number of the partition.")
    reason: str = Field(description="Reason in CamelCase.")
    message: str = Field(description="Explanation, and what to do.")


class PartitionReassignmentStatus(_Model):
    """The observed state."""

    phase: ReassignmentPhase = ReassignmentPhase.PENDING
    observed_generation: int | None = Field(
        default=None, description="metadata.generation that this status was computed from."
    )
    total: int = Field(default=0, description="Number of partitions of this resource.")
    done: int = Field(default=0, description="Number of partitions that have the wanted replicas.")
    moving: int = Field(default=0, description="Number of partitions that are moving.")
    waiting: int = Field(
        default=0, description="Number of partitions that have not started to move."
    )
    failed: int = Field(default=0, description="Number of partitions that can't be moved.")
    started_at: WrittenTime | None = Field(
        default=None, description="Time at which the first move started."
    )
    finished_at: WrittenTime | None = Field(
        default=None,
        description=("Time at which the reassignment completed, failed or was cancelled."),
    )
    problems: list[PartitionProblem] = Field(
        default=[], description=f"The first {MAX_PROBLEMS} partitions that can't be moved, and why."
    )
    conditions: list[Condition] = Field(
        default=[],
        description="Conditions, one entry for each type.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    )
