"""A request of the Kafka port, as those see it who answer it, and what HTTP routes hear of their caller: the port of this room."""

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from quorum_node.protocol.frames import Request, encode_response_parts
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.server.rights.port import Decided

ON_AUTHORIZED = "quorum.on_authorized"
"""Key of an ASGI scope: a function to call once the caller of the request has shown who it is."""
CALLER = "quorum.caller"
"""Key of an ASGI scope: the `Caller` that the connection has proved. A token is not known to it."""


class Answering(Protocol):
    """The connection that a request came on."""

    @property
    def caller(self) -> Caller:
        """Who is at the other end, as the connection itself has proved."""

    @property
    def decided(self) -> Decided:
        """What its caller was allowed before."""

    def write_ready(self) -> None:
        """Write every answer whose turn has come."""


class InboundRequest:
    """One request and its place in the order of answers."""

    __slots__ = (
        "_abandoned",
        "answered",
        "connection",
        "encoded",
        "received",
        "request",
        "size_bytes",
        "started",
    )

    def __init__(
        self, connection: Answering, request: Request, received: float, size_bytes: int = 0
    ) -> None:
        self.connection = connection
        self.request = request
        self.received = received
        self.size_bytes = size_bytes
        self.started = perf_counter()
        self.answered = 0.0
        self.encoded: list[bytes | memoryview] | None = None
        self._abandoned: Callable[[], None] | None = None

    @property
    def caller(self) -> Caller:
        """Who asks: whoever opened the connection."""
        return self.connection.caller

    @property
    def decided(self) -> Decided | None:
        """What this very caller was allowed before; None where nothing may be kept."""
        return self.connection.decided

    def when_abandoned(self, abandoned: Callable[[], None]) -> None:
        """What to do if the connection is gone before there is an answer; the last one said counts."""
        self._abandoned = abandoned

    def abandon(self) -> None:
        """The connection is gone: nobody waits for an answer any more."""
        if self._abandoned is not None:
            self._abandoned()

    def leave_unanswered(self) -> None:
        """Done without an answer: a producer with acks=0 expects none."""
        self._abandoned = None
        self.encoded = []
        self.answered = perf_counter()
        self.connection.write_ready()

    def reply(self, body: Message) -> None:
        """Answer; ignored when the connection is gone."""
        self.reply_version(body, self.request.version)

    def reply_version(self, body: Message, version: int) -> None:
        """Answer in another version than the request's (ApiVersions alone does so)."""
        request = self.request
        self._abandoned = None
        self.encoded = encode_response_parts(request.api, version, request.correlation_id, body)
        self.answered = perf_counter()
        self.connection.write_ready()


Handler = Callable[[InboundRequest], None]
