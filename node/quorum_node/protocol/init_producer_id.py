"""InitProducerId: an id for an idempotent producer (KIP-98; as shipped in 4.3, versions 0-5)."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, STRING, Message, message, wire


@message(flexible_since=2)
class InitProducerIdRequest(Message):
    """InitProducerId request. With a `transactional_id` it is for a transaction coordinator."""

    transactional_id: str | None = wire(STRING, nullable_since=0)
    transaction_timeout_ms: int = wire(INT32)
    producer_id: int = wire(INT64, since=3, default=-1, ignorable=True)
    producer_epoch: int = wire(INT16, since=3, default=-1, ignorable=True)


@message(flexible_since=2)
class InitProducerIdResponse(Message):
    """InitProducerId response."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    producer_id: int = wire(INT64, default=-1)
    producer_epoch: int = wire(INT16, default=-1)


INIT_PRODUCER_ID = Api(22, InitProducerIdRequest, InitProducerIdResponse, 0, 5)
