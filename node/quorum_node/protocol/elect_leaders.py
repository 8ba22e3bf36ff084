"""ElectLeaders, as shipped (KIP-183, KIP-460)."""

from enum import IntEnum

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT8,
    INT16,
    INT32,
    STRING,
    Array,
    Message,
    message,
    wire,
)


class ElectionType(IntEnum):
    """Which replica may be elected."""

    PREFERRED = 0
    UNCLEAN = 1


@message()
class TopicPartitions(Message):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@message(flexible_since=2)
class ElectLeadersRequest(Message):
    """ElectLeaders request; null means every partition."""

    election_type: int = wire(INT8, since=1, default=ElectionType.PREFERRED)
    topic_partitions: tuple[TopicPartitions, ...] | None = wire(
        Array(TopicPartitions), nullable_since=0
    )
    timeout_ms: int = wire(INT32, default=60_000)


@message()
class PartitionElection(Message):
    """Result for one partition."""

    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


@message()
class ReplicaElectionResult(Message):
    """Result for the partitions of one topic."""

    topic: str = wire(STRING)
    partition_result: tuple[PartitionElection, ...] = wire(Array(PartitionElection))


@message(flexible_since=2)
class ElectLeadersResponse(Message):
    """ElectLeaders response."""

    throttle_time_ms: int = wire(INT32, default=0)
    # Version 0 has the errors of partitions alone.
    error_code: int = wire(INT16, since=1, default=0, ignorable=True)
    replica_election_results: tuple[ReplicaElectionResult, ...] = wire(Array(ReplicaElectionResult))


ELECT_LEADERS = Api(43, ElectLeadersRequest, ElectLeadersResponse, 0, 2, is_forwardable=True)
