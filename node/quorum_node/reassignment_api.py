"""The admin API's documents about reassignments of partitions, as pydantic models.

Shared by the node, which serves them, and the operator, which carries out PartitionReassignments with them.
Replica lists are in order of preference, as everywhere in Kafka.
Source: KIP-455; the bounds are ours.
"""

from typing import Annotated

from pydantic import Field

from quorum_node.api import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, ApiModel, RequestModel

MAX_PARTITIONS = 1000
"""In one request: what is decided at once holds up everything else that the controller does."""
MAX_REPLICAS = 100
MAX_TOPIC_LENGTH = 249
_MAX_NUMBER = 2**31 - 1

Number = Annotated[int, Field(ge=0, le=_MAX_NUMBER)]
Replicas = Annotated[list[Number], Field(min_length=1, max_length=MAX_REPLICAS)]
TimeoutMs = Annotated[int, Field(ge=1, le=MAX_TIMEOUT_MS)]


class PartitionName(RequestModel):
    """Which partition."""

    topic: str = Field(min_length=1, max_length=MAX_TOPIC_LENGTH)
    partition: Number


class PartitionTarget(PartitionName):
    """The replicas that a partition shall have; null: what is under way is cancelled.

    `expected_replicas` makes it a compare-and-set: it is refused (STALE_REPLICAS) if the partition has other replicas
    than these, in this order. While a partition moves, those that it is leaving stand at the end.
    """

    replicas: Replicas | None
    expected_replicas: Replicas | None = None


class ReassignRequest(RequestModel):
    """Begin moves, replace or cancel them. Every partition gets its own result; the answer follows the commit.

    `max_moving`: what would make more partitions of the cluster move at once than this is refused
    (THROTTLING_QUOTA_EXCEEDED), as it is above the controller's own limit, `quorum.reassignments.max`.
    """

    partitions: list[PartitionTarget] = Field(min_length=1, max_length=MAX_PARTITIONS)
    max_moving: int | None = Field(default=None, ge=1)
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class RefusedPartition(ApiModel):
    """Nothing of this partition was changed. `error` is the name of Kafka's error, or STALE_REPLICAS."""

    topic: str
    partition: int
    error: str
    message: str


class ReassignResult(ApiModel):
    """How many partitions were taken, and which were not."""

    accepted: int
    refused: list[RefusedPartition]


class DescribePartitionsRequest(RequestModel):
    """Partitions to be described."""

    partitions: list[PartitionName] = Field(min_length=1, max_length=MAX_PARTITIONS)
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class PartitionDescription(ApiModel):
    """Where a partition is. It moves while it adds or removes replicas; the latter stand last in `replicas`."""

    topic: str
    partition: int
    replicas: list[int]
    isr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class BrokerDescription(ApiModel):
    """A registered broker; fenced while it does not report."""

    id: int
    fenced: bool


class PartitionDescriptions(ApiModel):
    """The partitions that there are, all registered brokers, and how many partitions of the cluster move.

    All at one point in time, `offset`, that is not older than the request.
    """

    partitions: list[PartitionDescription]
    brokers: list[BrokerDescription]
    moving: int
    offset: int
