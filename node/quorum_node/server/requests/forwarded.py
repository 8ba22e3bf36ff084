"""Requests that a broker forwards for its clients in an Envelope, and their answers (KIP-590).

Owns the wrapping. A forwarded request is handled like a direct one, with the client's principal and address. Must not know its
meaning.
"""

import socket
from collections.abc import Callable

import structlog

from quorum_node.controller.view import Caller
from quorum_node.protocol.apis import FORWARDABLE
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.envelope_principal import decode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import Request, decode_request, encode_response_body
from quorum_node.schema.encoder import FieldNotInVersion
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.listener.port import InboundRequest

_LOG = structlog.get_logger("quorum_node")


class ForwardedRequest(InboundRequest):
    """A request that was unwrapped from an Envelope; its answer is sent in the envelope's answer."""

    __slots__ = ("_caller", "_carrier")

    def __init__(self, carrier: InboundRequest, request: Request, caller: Caller) -> None:
        super().__init__(
            carrier.connection,
            request,
            carrier.received,
            carrier.size_bytes,
            thread=carrier.thread,
            takes_long=carrier.takes_long,
        )
        self._carrier = carrier
        self._caller = caller
        carrier.when_abandoned(self.abandon)

    @property
    def caller(self) -> Caller:
        """The client of the broker."""
        return self._caller

    @property
    def decided(self) -> None:
        """Nothing is cached: the connection belongs to a broker that forwards for many clients, each with its own rights."""

    def use_thread(self) -> None:
        """See `InboundRequest`."""
        super().use_thread()
        self._carrier.use_thread()

    def reply_version(self, body: Message, version: int) -> None:
        """Answer in the version of the client's request.

        NOT_CONTROLLER becomes the envelope's own error: the broker then asks the next controller, and the client does not see it.
        """
        self._carrier.reply_made(lambda: self._envelope(body, version))

    def reply_made(self, make: Callable[[], Message]) -> None:
        """See `InboundRequest`."""
        version = self.request.version
        self._carrier.reply_made(lambda: self._envelope(make(), version))

    def _envelope(self, body: Message, version: int) -> EnvelopeResponse:
        if says(body, ErrorCode.NOT_CONTROLLER):
            return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
        request = self.request
        try:
            data = encode_response_body(request.api, version, request.correlation_id, body)
        except FieldNotInVersion as error:
            # Like that of a direct request it must not end the node; but the connection belongs to other clients as well.
            _LOG.error(
                f"{request.api.name} version {version} in an Envelope: the answer can't be encoded, a bug of this node: {error}"
            )
            return EnvelopeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE)


def unwrap(carrier: InboundRequest, body: EnvelopeRequest) -> ForwardedRequest | ErrorCode:
    """The request in the envelope, or the error of the envelope."""
    try:
        principal = decode_principal(body.request_principal or b"")
    except MalformedMessage:
        return ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    address = bytes(body.client_host_address)
    if len(address) not in (4, 16):
        return ErrorCode.INVALID_REQUEST
    host = socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)
    try:
        request = decode_request(body.request_data)
    except MalformedMessage:
        return ErrorCode.UNSUPPORTED_VERSION
    if request.api.key not in FORWARDABLE or request.body is None:
        return ErrorCode.INVALID_REQUEST
    caller = Caller(f"{principal.type}:{principal.name}", host, carrier.caller.listener)
    return ForwardedRequest(carrier, request, caller)


def says(body: Message, error: ErrorCode) -> bool:
    """Whether an answer has this error, at its top level or for one of its items."""
    if getattr(body, "error_code", 0) == error:
        return True
    for name in body.__dataclass_fields__:
        value = getattr(body, name)
        if isinstance(value, tuple) and value and isinstance(value[0], Message):
            # A refusal is the same for all items: the first one is sufficient.
            return says(value[0], error)
    return False
