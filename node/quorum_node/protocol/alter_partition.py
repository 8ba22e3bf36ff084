"""AlterPartition, as shipped (KIP-497, KIP-704, KIP-841, KIP-903): a leader proposes a new ISR."""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

UNCHECKED_BROKER_EPOCH = -1
"""Unknown broker epoch of a replica in the new ISR; it is not compared."""


@message()
class IsrMember(Message):
    """A replica of the new ISR, and the broker epoch of its fetches."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=UNCHECKED_BROKER_EPOCH)


@message()
class AlteredPartition(Message):
    """The leader's view of a partition, and the proposed ISR."""

    partition_index: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    new_isr: tuple[int, ...] = wire(Array(INT32), until=2, default=())
    new_isr_with_epochs: tuple[IsrMember, ...] = wire(Array(IsrMember), since=3, default=())
    leader_recovery_state: int = wire(INT8, since=1, default=0)
    partition_epoch: int = wire(INT32)


@message()
class AlteredTopic(Message):
    """Partitions of one topic."""

    topic_id: UUID | None = wire(UUID_TYPE, since=2, default=None, ignorable=True)
    partitions: tuple[AlteredPartition, ...] = wire(Array(AlteredPartition))


@message(flexible_since=0)
class AlterPartitionRequest(Message):
    """AlterPartition request."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    topics: tuple[AlteredTopic, ...] = wire(Array(AlteredTopic))


@message()
class AlteredPartitionState(Message):
    """Result for one partition, and its present state."""

    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32, default=0)
    leader_epoch: int = wire(INT32, default=0)
    isr: tuple[int, ...] = wire(Array(INT32), default=())
    leader_recovery_state: int = wire(INT8, since=1, default=0, ignorable=True)
    partition_epoch: int = wire(INT32, default=0)


@message()
class AlteredTopicState(Message):
    """Result for the partitions of one topic."""

    topic_id: UUID | None = wire(UUID_TYPE, since=2, default=None, ignorable=True)
    partitions: tuple[AlteredPartitionState, ...] = wire(Array(AlteredPartitionState))


@message(flexible_since=0)
class AlterPartitionResponse(Message):
    """AlterPartition response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    topics: tuple[AlteredTopicState, ...] = wire(Array(AlteredTopicState), default=())


ALTER_PARTITION = Api(56, AlterPartitionRequest, AlterPartitionResponse, 2, 3)
