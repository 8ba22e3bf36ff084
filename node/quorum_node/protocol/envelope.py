"""Envelope (KIP-590; as shipped in 4.3): a request that a broker forwards, with the client's principal."""

from quorum_node.protocol.api import Api
from quorum_node.schema.primitives import Buffer
from quorum_node.schema.schema import BYTES, INT16, Message, message, wire


@message(flexible_since=0)
class EnvelopeRequest(Message):
    """Envelope request; `request_data` is a request with its header, without its size."""

    request_data: Buffer = wire(BYTES)
    request_principal: Buffer | None = wire(BYTES, nullable_since=0)
    client_host_address: Buffer = wire(BYTES)


@message(flexible_since=0)
class EnvelopeResponse(Message):
    """Envelope response; `response_data` is a response with its header, without its size."""

    response_data: Buffer | None = wire(BYTES, nullable_since=0, default=None)
    error_code: int = wire(INT16)


ENVELOPE = Api(58, EnvelopeRequest, EnvelopeResponse, 0, 0)
