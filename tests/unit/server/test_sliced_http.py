"""Large answers of the HTTP API over TLS are encrypted in slices, one in a turn of the loop; clear text is sent at once."""

import asyncio
from typing import Any

import pytest

from quorum_node.server.listener.http_connection import HttpConnection
from quorum_node.server.transport.sliced_transport import SLICE_BYTES
from support.http_listener import http_listener

BODY = bytes(range(256)) * (8 << 12)
"""8 MiB."""
REQUEST = b"GET / HTTP/1.1\r\nhost: node\r\nconnection: close\r\n\r\n"


class Wire(asyncio.Transport):
    """Keeps what is written, and in which turn of the loop."""

    def __init__(self, *, encrypted: bool) -> None:
        super().__init__({"ssl_object": object() if encrypted else None, "peername": ("::1", 1)})
        self.turn = 0
        self.written: list[tuple[int, bytes]] = []
        self.closed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed.is_set(), "written after the end"
        self.written.append((self.turn, bytes(data)))

    def close(self) -> None:
        self.closed.set()

    def is_closing(self) -> bool:
        return self.closed.is_set()

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def largest_turn(self) -> int:
        """Bytes written in one turn at most."""
        turns: dict[int, int] = {}
        for turn, data in self.written:
            turns[turn] = turns.get(turn, 0) + len(data)
        return max(turns.values())


async def application(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-length", str(len(BODY)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


async def answer_on(wire: Wire) -> bytes:
    """The whole answer to one request, after which the connection is closed."""
    connection = http_listener(application).make()
    connection.connection_made(wire)
    connection.data_received(REQUEST)
    async with asyncio.timeout(30):
        while not wire.closed.is_set():
            await asyncio.sleep(0)
            wire.turn += 1
    return b"".join(data for _, data in wire.written)


@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "clear text"])
async def test_answer_is_complete_and_over_tls_written_in_slices(encrypted: bool) -> None:
    wire = Wire(encrypted=encrypted)
    answer = await answer_on(wire)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert body == BODY
    if encrypted:
        assert wire.largest_turn() <= 2 * SLICE_BYTES
        assert wire.turn >= len(BODY) // SLICE_BYTES
    else:
        assert wire.largest_turn() >= len(BODY)


async def test_request_of_many_small_chunks_is_parsed_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    parse = HttpConnection._parse

    def parsed(connection: HttpConnection, data: bytes) -> None:
        sizes.append(len(data))
        parse(connection, data)

    monkeypatch.setattr(HttpConnection, "_parse", parsed)
    head = (
        b"POST / HTTP/1.1\r\nhost: node\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    request = head + b"1\r\n{\r\n" * 5000 + b"0\r\n\r\n"
    wire = Wire(encrypted=False)
    connection = http_listener(application).make()
    connection.connection_made(wire)
    connection.data_received(request)
    async with asyncio.timeout(10):
        await wire.closed.wait()
    assert b"".join(data for _, data in wire.written).endswith(BODY)
    assert 0 < max(sizes) <= 2 << 10
