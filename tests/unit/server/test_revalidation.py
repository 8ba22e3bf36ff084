"""Open connections are checked again when the trusted certificates change: which have to close, and until when."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.ending.fail_stop import watch_loop
from quorum_node.server.listener import connection_limits, http_server, kafka_listener
from quorum_node.server.listener.http_server import AdminServer
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.transport.sockets import bind
from support.generated_certificates import Issued
from support.tls_folder import look_again
from support.tls_port import CA, HELLO, Port, at_a_port
from support.tls_quorum import certificate_of

SWEEP_SECONDS = 0.05
READER = certificate_of("reader", None, CA)
POST = b"POST / HTTP/1.1\r\nhost: node\r\ncontent-length: 10\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nhost: node\r\n\r\n"
PIECE, PIECES = bytes(64 << 10), 1000
"""Of an answer: more than all buffers of a connection hold."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what changes is in the code under test
            await asyncio.sleep(0.01)


def revoke(port: Port, *revoked: Issued) -> None:
    """As after a check of the files."""
    lines = "".join(f"{each.certificate.serial_number:x}\n" for each in revoked)
    (port.folder / "1" / "revoked").write_text(lines)
    look_again(port.files)
    port.authentication.changed()


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in kafka_listener, http_server:
        monkeypatch.setattr(each, "_SWEEP_SECONDS", SWEEP_SECONDS)


def test_another_change_while_a_refused_connection_still_closes_is_no_bug(tmp_path: Path) -> None:
    """Its client chooses how long that takes. A bug would end the node."""
    bugs: list[BaseException] = []

    async def play(port: Port) -> None:
        watch_loop(asyncio.get_running_loop(), bugs.append)
        port.parks = True
        _, busy = await port.connect(READER)
        busy.write(HELLO)
        await until(lambda: len(port.parked) == 1)
        revoke(port, READER)
        await until(lambda: bool(port.reports.told))
        revoke(port, READER, certificate_of("reader", None, CA))
        await asyncio.sleep(4 * SWEEP_SECONDS)
        assert len(port.listener.connections) == 1, "it waits for its last answer"
        assert len(port.reports.told) == 1
        busy.close()

    at_a_port(tmp_path, play)
    assert bugs == []


async def swallowing(scope: Any, receive: Any, send: Any) -> None:
    """Reads the whole body."""
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def telling(scope: Any, receive: Any, send: Any) -> None:
    """A large answer, in pieces."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for left in reversed(range(PIECES)):
        await send({"type": "http.response.body", "body": PIECE, "more_body": left > 0})


@pytest.mark.parametrize(
    ("request_", "application"), [(POST + b"half", swallowing), (GET, telling)], ids=["POST", "GET"]
)
def test_http_client_cannot_delay_the_end_of_its_refused_connection(
    request_: bytes, application: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It neither completes its request nor reads its answer."""
    monkeypatch.setattr(connection_limits, "RETIRED_AFTER_SECONDS", 0.2)

    async def play(port: Port) -> None:
        sock = bind("127.0.0.1", 0)
        number = sock.getsockname()[1]
        server = AdminServer(application, sock, Metrics(), ConnectionLimits(), port.authentication)
        server.start()
        _, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=port.context(READER), server_hostname="127.0.0.1", limit=1
        )
        writer.write(request_)
        try:
            await until(lambda: any(each.cycle is not None for each in server._connections))
            revoke(port, READER)
            await until(lambda: bool(port.reports.told))
            await until(lambda: not list(server._connections))
        finally:
            writer.transport.abort()
            await server.stop()

    at_a_port(tmp_path, play)
