"""The port of this package: a request of the Kafka port, as its handlers see it, and the ASGI keys that describe an HTTP caller."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from time import perf_counter
from typing import Protocol, TypeVar

from quorum_node.protocol.frames import Request, encode_response_parts
from quorum_node.schema.encoder import FieldNotInVersion, Part
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_node.server.listener.large_messages import LARGE_MESSAGE_BYTES, LargeMessages
from quorum_node.server.rights.port import Decided

_T = TypeVar("_T")
ON_AUTHORIZED = "quorum.on_authorized"
"""Key of an ASGI scope: a callback, called once the caller of the request is authenticated."""
UNREAD = "quorum.unread"
"""Key of an ASGI scope: a callback, called with the number of bytes of the answer that are in memory until the client reads on."""
CALLER = "quorum.caller"
"""Key of an ASGI scope: the `Caller` that the connection has authenticated. A token is not considered."""


class Answering(Protocol):
    """The connection of a request."""

    @property
    def caller(self) -> Caller:
        """The caller that the connection has authenticated."""

    @property
    def decided(self) -> Decided:
        """Decisions about this caller that the connection has cached."""

    def write_ready(self, added_bytes: int) -> None:
        """Write all answers that are next in order. `added_bytes`: size of a new one."""

    def unencodable(self, request: Request, error: FieldNotInVersion) -> None:
        """Report an answer that can't be encoded: a bug of this node."""

    def in_pieces(self, work: Iterator[object]) -> None:
        """See `InboundRequest.in_pieces`."""

    @property
    def owner(self) -> object:
        """Whose requests these are: owners take turns on the thread."""

    def spent(self, seconds: float) -> None:
        """Its requests have used this much time of a thread, in seconds."""


class InboundRequest:
    """One request and its place in the order of answers.

    `thread`: for its pure work, if that takes long. `takes_long`: known from its size; otherwise its handler may know it (`use_thread`).
    """

    __slots__ = (
        "_abandoned",
        "_ending",
        "answer_bytes",
        "answered",
        "connection",
        "encoded",
        "ends_connection",
        "received",
        "request",
        "size_bytes",
        "started",
        "takes_long",
        "thread",
    )

    def __init__(
        self,
        connection: Answering,
        request: Request,
        received: float,
        size_bytes: int = 0,
        thread: LargeMessages | None = None,
        *,
        takes_long: bool = False,
    ) -> None:
        self.thread = thread
        self.takes_long = takes_long
        self.connection = connection
        self.request = request
        self.received = received
        self.size_bytes = size_bytes
        self.started = perf_counter()
        self.answered = 0.0
        self.answer_bytes = 0
        self.encoded: list[bytes | memoryview] | None = None
        self.ends_connection = False
        self._ending: tuple[type[Exception], ...] = ()
        self._abandoned: Callable[[], None] | None = None

    @property
    def caller(self) -> Caller:
        """The caller of the request: that of its connection."""
        return self.connection.caller

    @property
    def decided(self) -> Decided | None:
        """Cached decisions about this caller; None where they must not be cached."""
        return self.connection.decided

    def pass_to(self, handler: "Handler") -> None:
        """Have it handled. Of a large request only the header is kept while the answer is awaited: a client chooses how long it waits, and
        with unknown fields how large the rest is.
        """
        handler(self)
        if self.encoded is None and self.size_bytes >= LARGE_MESSAGE_BYTES:
            self.request = replace(self.request, body=None)

    def keep_only(self, body: Message) -> None:
        """Keep this instead of the decoded request while the answer is awaited."""
        self.request = replace(self.request, body=body)

    def when_abandoned(self, abandoned: Callable[[], None]) -> None:
        """Set the callback for a connection that is closed before the answer; it replaces an earlier one."""
        self._abandoned = abandoned

    def abandon(self) -> None:
        """The connection was closed: no answer is needed."""
        if self._abandoned is not None:
            self._abandoned()

    def leave_unanswered(self, *, failed: bool) -> None:
        """Complete the request without an answer: a producer with acks=0 expects none.

        `failed`: the connection is closed when the requests before this one are answered.
        """
        self._abandoned = None
        self.ends_connection = failed
        self.encoded = []
        self.answered = perf_counter()
        self.connection.write_ready(0)

    def use_thread(self) -> None:
        """Its pure work takes long, although it is short."""
        self.takes_long = True

    def ends_on(self, *errors: type[Exception]) -> None:
        """Set the exceptions of work in pieces that end only this connection. Any other is a bug."""
        self._ending = errors

    def in_pieces(self, work: Iterator[object]) -> None:
        """Do work that is not pure, and may take long, in turns of the loop of two milliseconds each.

        To be called while the request is handled. `work` may be interrupted at every step, so between two of them others see what it has
        done and change what it reads. The next requests of the connection wait for its end, so that their order stays. It is not
        continued when the connection is closed.
        """
        self.connection.in_pieces(self._unless_it_ends(work))

    def _unless_it_ends(self, work: Iterator[object]) -> Iterator[object]:
        try:
            yield from work
        except self._ending:
            self.leave_unanswered(failed=True)

    def prepare(self, work: Callable[[], _T], then: Callable[[_T], None]) -> None:
        """Do pure work for this request, then continue with its result: at once, or on the thread if it takes long."""
        if self.thread is None or not self.takes_long:
            then(work())
            return

        def done(made: "Future[_T]", seconds: float) -> None:
            self.connection.spent(seconds)
            then(made.result())

        self.thread.run(self.connection.owner, work, done)

    def reply(self, body: Message) -> None:
        """Send the answer; ignored when the connection is closed."""
        self.reply_version(body, self.request.version)

    def reply_made(self, make: Callable[[], Message]) -> None:
        """Make the answer and send it. `make` is pure: it runs on the thread if it takes long."""
        self._abandoned = None
        version = self.request.version
        self.prepare(lambda: self._encoded(make(), version), self._send)

    def reply_version(self, body: Message, version: int) -> None:
        """Answer in another version than the request's (only ApiVersions does so).

        An answer that can't be encoded closes the connection and does not end the node: its state is consistent, and
        otherwise one client could stop every node.
        """
        self._abandoned = None
        self.prepare(lambda: self._encoded(body, version), self._send)

    def _encoded(self, body: Message, version: int) -> list[Part] | FieldNotInVersion:
        request = self.request
        try:
            return encode_response_parts(request.api, version, request.correlation_id, body)
        except FieldNotInVersion as error:
            return error

    def _send(self, encoded: list[Part] | FieldNotInVersion) -> None:
        if isinstance(encoded, FieldNotInVersion):
            self.connection.unencodable(self.request, encoded)
            self.leave_unanswered(failed=True)
            return
        self.encoded = encoded
        self.answer_bytes = sum(map(len, encoded))
        self.answered = perf_counter()
        self.connection.write_ready(self.answer_bytes)


Handler = Callable[[InboundRequest], None]
