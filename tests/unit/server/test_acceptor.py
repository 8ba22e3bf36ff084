"""Connections that are being accepted while their listener is closed."""

import asyncio
import socket

import uvloop

from quorum_node.server.listener.acceptor import Acceptor


class Answering(asyncio.Protocol):
    """Answers in a later turn of the loop, as connections do that share it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._loop.call_soon(self._answer, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def _answer(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
            self._transport.close()


def test_connection_that_is_being_accepted_at_the_end_is_not_closed_behind_its_protocol() -> None:
    """A node ended with an internal error: it wrote an answer to a transport that was closed, and nothing had told it."""
    loop = uvloop.new_event_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        client.settimeout(20)
        client.sendall(b"request")
        acceptors: list[Acceptor] = []

        def make() -> Answering:
            # Runs before the protocol is connected, in the same turn.
            loop.call_soon(acceptors[0].close)
            return Answering(loop)

        async def run() -> bytes:
            acceptors.append(Acceptor(server, make, 100))
            acceptors[0].start()
            received = await loop.run_in_executor(None, client.recv, 100)
            assert await loop.run_in_executor(None, client.recv, 100) == b"", "the end"
            return received

        with client:
            answer = loop.run_until_complete(run())
    loop.close()
    assert not failures
    assert answer == b"request"
