"""Requests of clients that a broker passes on in an Envelope, and their answers on the way back (KIP-590).

Owns the wrapping. A forwarded request is handled like one that came in by itself, with the client's principal
and address. Must not know what it asks for.
"""

import socket

from quorum_node.controller.view import Caller
from quorum_node.protocol.apis import FORWARDABLE
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.envelope_principal import decode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import Request, decode_request, encode_response_body
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.listener.port import InboundRequest


class ForwardedRequest(InboundRequest):
    """What was in an Envelope; its answer leaves as the envelope's."""

    __slots__ = ("_caller", "_carrier")

    def __init__(self, carrier: InboundRequest, request: Request, caller: Caller) -> None:
        super().__init__(carrier.connection, request, carrier.received)
        self._carrier = carrier
        self._caller = caller
        carrier.when_abandoned(self.abandon)

    @property
    def caller(self) -> Caller:
        """The client of the broker."""
        return self._caller

    @property
    def decided(self) -> None:
        """Nothing is kept: the broker of this connection speaks for many clients, each with rights of its own."""

    def reply_version(self, body: Message, version: int) -> None:
        """Answer in the version that the client asked in.

        NOT_CONTROLLER is the envelope's own error: then the broker asks the next controller, and the client
        hears nothing of it.
        """
        if says(body, ErrorCode.NOT_CONTROLLER):
            self._carrier.reply(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
            return
        request = self.request
        data = encode_response_body(request.api, version, request.correlation_id, body)
        self._carrier.reply(EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE))


def unwrap(carrier: InboundRequest, body: EnvelopeRequest) -> ForwardedRequest | ErrorCode:
    """The request inside, or what is wrong with the envelope."""
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
    """Whether an answer has this error, at its top or for one of the things that were asked for."""
    if getattr(body, "error_code", 0) == error:
        return True
    for name in body.__dataclass_fields__:
        value = getattr(body, name)
        if isinstance(value, tuple) and value and isinstance(value[0], Message):
            # A refusal is the same for all: the first one tells.
            return says(value[0], error)
    return False
