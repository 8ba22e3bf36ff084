"""The admin API's documents about reassignments of partitions, as pydantic models.

Shared by the node, which serves them, and the operator, which carries out PartitionReassignments with them.
Replica lists are in order of preference, as everywhere in Kafka.
Source: KIP-455; the bounds are ours.
"""

from typing import Annotated

from pydantic import Field

from quorum_node.api import DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS, ApiModel, RequestModel

MAX_PARTITIONS = 1000
"""Limit of partitions in one request. One request is decided at once and delays the rest of the
controller.
"""
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
    """The replicas that a partition is to have; null cancels the reassignment in progress.

    `expected_replicas` makes it a compare-and-set: it is refused (STALE_REPLICAS) if the present
    replicas differ from these, in this order. During a reassignment the replicas to be removed are
    last.
    """

    replicas: Replicas | None
    expected_replicas: Replicas | None = None


class ReassignRequest(RequestModel):
    """Start, replace or cancel reassignments. Every partition gets its own result, after the
    commit.

    `max_moving`: limit for the number of partitions of the cluster in reassignment. What exceeds it
    is refused (THROTTLING_QUOTA_EXCEEDED), as is what exceeds the controller's own limit,
    `quorum.reassignments.max`.
    """

    partitions: list[PartitionTarget] = Field(min_length=1, max_length=MAX_PARTITIONS)
    max_moving: int | None = Field(default=None, ge=1)
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class RefusedPartition(ApiModel):
    """A partition that was not changed. `error` is the name of a Kafka error, or STALE_REPLICAS."""

    topic: str
    partition: int
    error: str
    message: str


class ReassignResult(ApiModel):
    """Number of accepted partitions, and the refused ones."""

    accepted: int
    refused: list[RefusedPartition]


class DescribePartitionsRequest(RequestModel):
    """Partitions to be described."""

    partitions: list[PartitionName] = Field(min_length=1, max_length=MAX_PARTITIONS)
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class PartitionDescription(ApiModel):
    """Replicas of a partition. It is in reassignment while it adds or removes replicas; those to be
    removed are last in `replicas`.
    """

    topic: str
    partition: int
    replicas: list[int]
    isr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class BrokerDescription(ApiModel):
    """A registered broker; `fenced` while it sends no heartbeats."""

    id: int
    fenced: bool


class PartitionDescriptions(ApiModel):
    """The described partitions, all registered brokers, and the number of partitions in
    reassignment.
    All of it as of one `offset`, which is not older than the request.
    """

    partitions: list[PartitionDescription]
    brokers: list[BrokerDescription]
    moving: int
    offset: int
