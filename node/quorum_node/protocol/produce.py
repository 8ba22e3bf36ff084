"""Produce: batches of a producer for partition leaders (as shipped in 4.3, versions 3-13; KIP-951
for the leader's endpoint).

Versions 0 to 2 are announced but not served, as in stock brokers: otherwise librdkafka does not
compress (KAFKA-18659).
"""

from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID_TYPE,
    Array,
    Message,
    message,
    wire,
)

FIRST_ANNOUNCED_VERSION = 0


@message()
class PartitionProduceData(Message):
    """The batches for one partition."""

    index: int = wire(INT32)
    records: bytes | memoryview | None = wire(RECORDS, nullable_since=0)


@message()
class TopicProduceData(Message):
    """A topic: by name below version 13, by id from there on."""

    name: str = wire(STRING, until=12, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=13, default=None, ignorable=True)
    partition_data: tuple[PartitionProduceData, ...] = wire(Array(PartitionProduceData))


@message(flexible_since=9)
class ProduceRequest(Message):
    """Produce request; `acks`: -1 (all in-sync replicas), 0 (no response) or 1 (the leader)."""

    transactional_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: tuple[TopicProduceData, ...] = wire(Array(TopicProduceData))


@message()
class RecordError(Message):
    """A record of a refused batch."""

    batch_index: int = wire(INT32, since=8, default=0)
    batch_index_error_message: str | None = wire(STRING, since=8, nullable_since=8, default=None)


@message()
class ProducedLeader(Message):
    """The partition's leader, -1 where it is unknown."""

    leader_id: int = wire(INT32, since=10, default=-1)
    leader_epoch: int = wire(INT32, since=10, default=-1)


NO_LEADER = ProducedLeader()


@message()
class PartitionProduceResponse(Message):
    """Result for the batch of one partition."""

    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, since=2, default=-1, ignorable=True)
    log_start_offset: int = wire(INT64, since=5, default=-1, ignorable=True)
    record_errors: tuple[RecordError, ...] = wire(
        Array(RecordError), since=8, default=(), ignorable=True
    )
    error_message: str | None = wire(
        STRING, since=8, nullable_since=8, default=None, ignorable=True
    )
    current_leader: ProducedLeader = wire(
        ProducedLeader, since=10, tag=0, default=NO_LEADER, ignorable=True
    )


@message()
class TopicProduceResponse(Message):
    """Results for one topic."""

    name: str = wire(STRING, until=12, default="", ignorable=True)
    topic_id: UUID | None = wire(UUID_TYPE, since=13, default=None, ignorable=True)
    partition_responses: tuple[PartitionProduceResponse, ...] = wire(
        Array(PartitionProduceResponse)
    )


@message()
class ProduceNodeEndpoint(Message):
    """Address of a leader named in the response."""

    node_id: int = wire(INT32, since=10, default=-1)
    host: str = wire(STRING, since=10, default="")
    port: int = wire(INT32, since=10, default=0)
    rack: str | None = wire(STRING, since=10, nullable_since=10, default=None)


@message(flexible_since=9)
class ProduceResponse(Message):
    """Produce response."""

    responses: tuple[TopicProduceResponse, ...] = wire(Array(TopicProduceResponse))
    throttle_time_ms: int = wire(INT32, since=1, default=0, ignorable=True)
    node_endpoints: tuple[ProduceNodeEndpoint, ...] = wire(
        Array(ProduceNodeEndpoint), since=10, tag=0, default=(), ignorable=True
    )


PRODUCE = Api(0, ProduceRequest, ProduceResponse, 3, 13)
