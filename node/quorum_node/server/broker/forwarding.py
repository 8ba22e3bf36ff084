"""Forwards requests that the active controller decides, in an Envelope, and returns its answers.

Owns the wrapping and the retries with another controller. Does not interpret requests.
Source: KIP-590.
"""

import asyncio
import socket
import time
from collections.abc import Callable

from quorum_node.protocol.apis import ENVELOPE
from quorum_node.protocol.envelope import EnvelopeRequest, EnvelopeResponse
from quorum_node.protocol.envelope_principal import DefaultPrincipal, encode_principal
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import MalformedMessage, Message
from quorum_node.server.broker.controller_channel import ControllerChannel
from quorum_node.server.listener.port import InboundRequest

_ATTEMPT_MS = 30_000
_DEADLINE_SECONDS = 30.0
_PAUSE_SECONDS = 0.1

Refuse = Callable[[Message, ErrorCode, str], Message]
Whole = Callable[[Message], Message]
"""The answer to a whole request, made of the active controller's answer to a part of it."""


def _same(answer: Message) -> Message:
    return answer


class Forwarding:
    """Forwards any number of concurrent requests. `refuse`: makes the answer if there is none from a controller."""

    def __init__(self, channel: ControllerChannel, refuse: Refuse) -> None:
        self._channel = channel
        self._refuse = refuse
        self._loop = asyncio.get_running_loop()

    def forward(self, inbound: InboundRequest, body: Message, whole: Whole = _same) -> None:
        """Reply with the active controller's answer, or with a refusal if there is none in time. `body`: the part to forward."""
        request = inbound.request
        frame = encode_request(
            request.api, request.version, request.correlation_id, request.client_id or "", body
        )
        kind, _, name = inbound.caller.principal.partition(":")
        principal = DefaultPrincipal(type=kind, name=name, token_authenticated=False)
        envelope = EnvelopeRequest(
            request_data=frame[SIZE_BYTES:],
            request_principal=encode_principal(principal),
            client_host_address=_address(inbound.caller.host),
        )
        self._ask(inbound, body, envelope, time.monotonic() + _DEADLINE_SECONDS, whole)

    def _ask(
        self,
        inbound: InboundRequest,
        body: Message,
        envelope: EnvelopeRequest,
        deadline: float,
        whole: Whole,
    ) -> None:
        def again() -> None:
            self._ask(inbound, body, envelope, deadline, whole)

        def answered(outcome: Message | FailureReason) -> None:
            if isinstance(outcome, EnvelopeResponse) and outcome.error_code == ErrorCode.NONE:
                self._pass_back(inbound, body, outcome, whole)
                return
            moved = (
                isinstance(outcome, EnvelopeResponse)
                and outcome.error_code == ErrorCode.NOT_CONTROLLER
            ) or outcome in (FailureReason.REFUSED, FailureReason.CLOSED)
            if moved and time.monotonic() < deadline:
                self._loop.call_later(_PAUSE_SECONDS, again)
                return
            error = outcome.error_code if isinstance(outcome, EnvelopeResponse) else 0
            code = (
                ErrorCode.REQUEST_TIMED_OUT
                if moved or not error
                else ErrorCode.UNKNOWN_SERVER_ERROR
            )
            text = "the active controller did not answer this request in time"
            if error and not moved:
                text = f"the active controller refused the envelope with error {error}"
            inbound.reply(whole(self._refuse(body, code, text)))

        self._channel.ask(ENVELOPE, envelope, answered, timeout_ms=_ATTEMPT_MS)

    def _pass_back(
        self, inbound: InboundRequest, body: Message, outcome: EnvelopeResponse, whole: Whole
    ) -> None:
        request = inbound.request
        try:
            answer = decode_response(request.api, request.version, outcome.response_data or b"")
        except MalformedMessage:
            text = "the active controller's answer can't be read"
            answer = self._refuse(body, ErrorCode.UNKNOWN_SERVER_ERROR, text)
        inbound.reply(whole(answer))


def _address(host: str) -> bytes:
    """The address in an Envelope, which has no zone: of `fe80::1%eth0` the part before the percent sign."""
    host = host.partition("%")[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.inet_pton(family, host)
    except OSError:
        return bytes(4)
