"""A client of TLS that sends on after the server has ended the connection, as with the body of a refused request."""

import asyncio
import contextlib
import socket
import threading
from pathlib import Path
from typing import cast

import pytest
import uvloop

from quorum_node.server.transport.bounded_handshake import MAX_BYTES_AFTER_END
from support.tls_folder import tls_files
from support.tls_quorum import certificate_of, new_authority

PIECE = bytes(16 << 10)
KERNEL_BYTES = 16 << 20
"""More than the buffers of both sockets hold."""
ANSWER = b"refused"
CA = new_authority()
MADE = certificate_of("member", 1, CA)


class Refusing(asyncio.Protocol):
    """Answers the first bytes, and ends the connection."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(ANSWER)
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(exc)


class Client:
    """Sends `size_bytes` before it reads the answer."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.sent_bytes = 0
        self.answer = b""

    def run(self, folder: Path, port: int) -> None:
        context = tls_files(folder, MADE, CA.certificate).client
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
        ):
            with contextlib.suppress(OSError):
                while self.sent_bytes < self.size_bytes:
                    self.sent_bytes += connection.send(PIECE)
            self.answer = connection.recv(1 << 10)


def refused(tmp_path: Path, size_bytes: int) -> Client:
    """A client when its connection has ended."""

    async def run() -> Client:
        files = tls_files(tmp_path, MADE, CA.certificate)
        loop = asyncio.get_running_loop()
        server_side = Refusing()
        server = await loop.create_server(
            lambda: server_side, "127.0.0.1", 0, ssl=files.server, ssl_shutdown_timeout=60.0
        )
        port = server.sockets[0].getsockname()[1]
        client = Client(size_bytes)
        thread = threading.Thread(target=client.run, args=(tmp_path, port), daemon=True)
        thread.start()
        async with asyncio.timeout(50):
            await asyncio.to_thread(thread.join)
            await server_side.ended
        server.close()
        return client

    return uvloop.run(run())


def test_body_of_a_refused_request_is_not_read_to_its_end(tmp_path: Path) -> None:
    client = refused(tmp_path, 4 * KERNEL_BYTES)
    assert client.sent_bytes < MAX_BYTES_AFTER_END + KERNEL_BYTES
    assert client.answer == ANSWER


@pytest.mark.parametrize("size_bytes", [1, MAX_BYTES_AFTER_END // 2])
def test_client_that_has_little_left_to_send_sends_it_all(size_bytes: int, tmp_path: Path) -> None:
    client = refused(tmp_path, size_bytes)
    assert client.sent_bytes >= size_bytes
    assert client.answer == ANSWER
