"""ReadOffset (KIP-650, "Non-leader Linearizable Read"): the offset that a replica has to apply
before a read.

Field for field as in the KIP, which has neither errors nor stale reads: those are private tagged
fields from 20000 up. The API key is private as well (`apis.py`).
"""

from quorum_node.protocol.api import Api
from quorum_node.protocol.elections import NodeEndpoint
from quorum_node.protocol.fetch import NO_LEADER, LeaderIdAndEpoch
from quorum_node.schema.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    Message,
    message,
    wire,
)


@message()
class ReadOffsetRequestPartition(Message):
    """One partition."""

    partition_index: int = wire(INT32)


@message()
class ReadOffsetRequestTopic(Message):
    """One topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[ReadOffsetRequestPartition, ...] = wire(Array(ReadOffsetRequestPartition))


@message(flexible_since=0)
class ReadOffsetRequest(Message):
    """`stale`: respond at once, without confirmation and in any role."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    read_timestamp: int = wire(INT64)
    topics: tuple[ReadOffsetRequestTopic, ...] = wire(Array(ReadOffsetRequestTopic))
    stale: bool = wire(BOOL, tag=20000, default=False)


@message()
class ReadOffsetResponsePartition(Message):
    """`applied_offset` is -1 with an error; `age_ms` belongs to a stale read, -1 if unknown."""

    partition_index: int = wire(INT32)
    applied_offset: int = wire(INT64)
    error_code: int = wire(INT16, tag=20000, default=0)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, tag=20001, default=NO_LEADER)
    age_ms: int = wire(INT64, tag=20002, default=-1)


@message()
class ReadOffsetResponseTopic(Message):
    """One topic."""

    topic_name: str = wire(STRING)
    partitions: tuple[ReadOffsetResponsePartition, ...] = wire(Array(ReadOffsetResponsePartition))


@message(flexible_since=0)
class ReadOffsetResponse(Message):
    """A top-level error concerns the whole request: a wrong cluster id."""

    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    topics: tuple[ReadOffsetResponseTopic, ...] = wire(Array(ReadOffsetResponseTopic))
    error_code: int = wire(INT16, tag=20000, default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = wire(Array(NodeEndpoint), tag=20001, default=())


READ_OFFSET = Api(20002, ReadOffsetRequest, ReadOffsetResponse, 0, 0, is_about_quorum=True)
