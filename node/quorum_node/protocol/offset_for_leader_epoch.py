"""OffsetForLeaderEpoch: where an epoch ends in the leader's log (KIP-101, KIP-320; as shipped in 4.3, versions 2-4)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Array, Message, message, wire

NO_REPLICA = -2


@message()
class OffsetForLeaderPartition(Message):
    """Requested epoch of one partition."""

    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=2, default=-1, ignorable=True)
    leader_epoch: int = wire(INT32)


@message()
class OffsetForLeaderTopic(Message):
    """Partitions of one topic."""

    topic: str = wire(STRING)
    partitions: tuple[OffsetForLeaderPartition, ...] = wire(Array(OffsetForLeaderPartition))


@message(flexible_since=4)
class OffsetForLeaderEpochRequest(Message):
    """OffsetForLeaderEpoch request; `replica_id` is negative for a consumer."""

    replica_id: int = wire(INT32, since=3, default=NO_REPLICA, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = wire(Array(OffsetForLeaderTopic))


@message()
class EpochEnd(Message):
    """The largest known epoch at or below the requested one, and its end; -1: none is known."""

    error_code: int = wire(INT16)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=1, default=-1, ignorable=True)
    end_offset: int = wire(INT64, default=-1)


@message()
class OffsetForLeaderTopicResult(Message):
    """Results for one topic."""

    topic: str = wire(STRING)
    partitions: tuple[EpochEnd, ...] = wire(Array(EpochEnd))


@message(flexible_since=4)
class OffsetForLeaderEpochResponse(Message):
    """OffsetForLeaderEpoch response."""

    throttle_time_ms: int = wire(INT32, since=2, default=0, ignorable=True)
    topics: tuple[OffsetForLeaderTopicResult, ...] = wire(Array(OffsetForLeaderTopicResult))


OFFSET_FOR_LEADER_EPOCH = Api(23, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, 2, 4)
