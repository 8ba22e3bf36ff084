"""What clients of the HTTP API can cost that send requests without reading answers: turns of the loop, time, and memory."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from quorum_node.server.admin.pieced_document import PiecedDocument
from quorum_node.server.listener import http_connection
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.http_connection import (
    MAX_HEADER_LINES,
    HttpConnection,
    HttpListener,
)
from support.http_listener import http_listener

GET = b"GET / HTTP/1.1\r\nhost: node\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: node\r\ncontent-length: 2\r\n\r\n"


class Wire(asyncio.Transport):
    """A client; one that does not `read` blocks the connection with the first bytes of an answer's body."""

    def __init__(self, *, reads: bool = True) -> None:
        super().__init__({"peername": ("::1", 1)})
        self.reads = reads
        self.written = b""
        self.is_gone = False
        self.connection: HttpConnection | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)
        if not self.reads and b"\r\n\r\n" in self.written and self.connection is not None:
            self.connection.pause_writing()

    def abort(self) -> None:
        self.is_gone = True
        assert self.connection is not None
        self.connection.connection_lost(None)

    def close(self) -> None:
        self.is_gone = True

    def is_closing(self) -> bool:
        return self.is_gone

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class GivenTurns:
    """A loop that calls nothing by itself; time stands still between two turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self._due.append(callback)

    def give(self) -> None:
        """Everything that waits is due."""
        self.now += 3600
        due, self._due = self._due, []
        for each in due:
            each()


class Listed(BaseModel):
    entries: list[str]


def unhurried(application: Any) -> HttpListener:
    """Nobody waits because a busy machine has made a piece of work long: see `test_fair_turns`."""
    listener = http_listener(application)
    listener.turns = FairTurns(asyncio.get_running_loop(), turn_seconds=math.inf)
    return listener


def connect(listener: HttpListener, wire: Wire) -> HttpConnection:
    connection = wire.connection = listener.make()
    connection.connection_made(wire)
    return connection


async def settle() -> None:
    """Everything runs that does not wait for an event from outside."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_each_request_waits_for_a_turn_although_all_arrive_at_once() -> None:
    begun = 0

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal begun
        begun += 1
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    turns = GivenTurns()
    listener = http_listener(application)
    listener.turns = FairTurns(turns, share=0.5, burst_seconds=1e-9, clock=lambda: turns.now)
    wire = Wire()
    connect(listener, wire).data_received(3 * GET)
    for number in range(1, 4):
        await settle()
        assert begun == number
        turns.give()
    await settle()
    assert (begun, wire.written.count(b"HTTP/1.1 204")) == (3, 3)


async def test_body_that_follows_an_earlier_request_has_the_usual_time_to_arrive() -> None:
    bodies: list[bytes] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "POST":
            bodies.append((await receive())["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    connection = connect(unhurried(application), Wire())
    connection.data_received(GET + POST)
    await settle()
    assert connection.unfinished_since is not None
    connection.data_received(b"{}")
    await settle()
    assert bodies == [b"{}"]
    assert connection.unfinished_since is None


async def test_unread_answers_of_many_clients_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "MAX_UNREAD_BYTES", 1 << 20)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        document = PiecedDocument("entries")
        for _ in range(8):
            document.add(b'"' + bytes(100 << 10) + b'"')
        await document.response(Listed(entries=[]))(scope, receive, send)

    listener = unhurried(application)
    wires = [Wire(reads=False) for _ in range(3)]
    for number, wire in enumerate(wires):
        connect(listener, wire).data_received(GET)
        await settle()
        assert [each.is_gone for each in wires[: number + 1]] == [True] * number + [False]
    assert len(listener.book) == 1
    reader = Wire()
    connect(listener, reader).data_received(GET)
    await settle()
    assert len(reader.written) > 800 << 10


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("count", [200, MAX_HEADER_LINES])
async def test_header_of_too_many_lines_is_not_parsed(count: int, at_once: bool) -> None:
    begun: list[int] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.append(len(scope["headers"]))
        left = 5_000
        while left:
            left -= len((await receive())["body"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    wire = Wire()
    connection = connect(unhurried(application), wire)
    # Lines of a body are no lines of a header.
    request = POST[:-2].replace(b"2", b"5000") + count * b"a:\r\n" + b"\r\n" + 5_000 * b"\n"
    for _ in range(2):
        pieces = [request] if at_once else [bytes([each]) for each in request]
        for each in pieces:
            if not wire.is_gone:
                connection.data_received(each)
                await settle() if at_once else await asyncio.sleep(0)
        await settle()
    assert wire.is_gone is (count == MAX_HEADER_LINES)
    assert begun == ([] if wire.is_gone else [count + 2, count + 2])
