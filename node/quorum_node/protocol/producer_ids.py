"""AllocateProducerIds (KIP-730; as shipped in 4.3): a block of producer ids for one broker."""

from quorum_node.protocol.api import Api
from quorum_node.schema.schema import INT16, INT32, INT64, Message, message, wire


@message(flexible_since=0)
class AllocateProducerIdsRequest(Message):
    """AllocateProducerIds request."""

    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


@message(flexible_since=0)
class AllocateProducerIdsResponse(Message):
    """AllocateProducerIds response: ids from `producer_id_start`, `producer_id_len` of them."""

    throttle_time_ms: int = wire(INT32, default=0)
    error_code: int = wire(INT16)
    producer_id_start: int = wire(INT64, default=0)
    producer_id_len: int = wire(INT32, default=0)


ALLOCATE_PRODUCER_IDS = Api(67, AllocateProducerIdsRequest, AllocateProducerIdsResponse, 0, 0)
