"""The operator's HTTP port with hostile clients: time, connections, bytes, log lines and work are bounded."""

import asyncio
import logging
import select
import socket
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from quorum_operator import http_endpoint
from quorum_operator.application import Application
from quorum_operator.http_endpoint import (
    MOST_CONNECTIONS,
    MOST_REQUEST_BYTES,
    REUSED_S,
    HttpEndpoint,
    Reused,
)
from quorum_operator.settings import Settings

GET = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE = bytes(32 << 20)
"""More than the buffers of two sockets hold."""
PATIENCE_S = 20.0


async def metrics(_: web.BaseRequest) -> web.Response:
    return web.Response(body=b"figures")


async def large(_: web.BaseRequest) -> web.Response:
    return web.Response(body=LARGE)


async def failing(_: web.BaseRequest) -> web.Response:
    raise RuntimeError("a defect")


@asynccontextmanager
async def serving(deadline_s: float = 60.0) -> AsyncIterator[int]:
    routes = {"/metrics": metrics, "/large": large, "/failing": failing}
    endpoint = HttpEndpoint(routes, deadline_s)
    port = await endpoint.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await endpoint.stop()


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Everything until the connection is closed, in whatever way."""
    got = b""
    try:
        while part := await reader.read(1 << 16):
            got += part
    except ConnectionError:
        pass
    return got


async def said(port: int, *parts: bytes) -> bytes:
    """The answer to what is sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
    except ConnectionError:
        pass
    found = await rest(reader)
    writer.close()
    return found


async def soon(awaited: Awaitable[bytes]) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await awaited


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\nX: "])
async def test_incomplete_request_is_closed_at_the_deadline(sent: bytes) -> None:
    async with serving(deadline_s=0.1) as port:
        assert await soon(said(port, sent)) == b""


async def hung_up(client: socket.socket) -> bool:
    """Whether the server resets the connection, of which nothing is read."""
    events = select.poll()
    events.register(client, 0)
    found = await asyncio.to_thread(events.poll, PATIENCE_S * 1000)
    return any(event & select.POLLHUP for _, event in found)


async def test_client_that_does_not_read_is_closed_at_the_deadline() -> None:
    async with serving(deadline_s=0.5) as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await hung_up(client)


async def test_stop_closes_a_client_that_does_not_read() -> None:
    async with asyncio.timeout(2 * PATIENCE_S):
        async with serving() as port:
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200 OK" in await said(port, GET)
        with client:
            assert await hung_up(client)


async def test_flood_of_one_address_closes_its_own_oldest_connections_only() -> None:
    async with serving() as port:
        probe, probe_writer = await asyncio.open_connection(
            "127.0.0.1", port, local_addr=("127.0.0.2", 0)
        )
        flood = [
            await asyncio.open_connection("127.0.0.1", port) for _ in range(2 * MOST_CONNECTIONS)
        ]
        assert await soon(rest(flood[0][0])) == b""
        flood[-1][1].write(GET)
        assert (await soon(rest(flood[-1][0]))).endswith(b"figures")
        probe_writer.write(GET)
        assert (await soon(rest(probe))).endswith(b"figures")
        for _, writer in (*flood, (None, probe_writer)):
            writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 9, b"400"),
        (b"GET /metrics HTTP/9.9\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 9_000 + b"\r\n\r\n", b"400"),
        (b"GET /other HTTP/1.1\r\nHost: [\r\n\r\n", b"404"),
        (b"DELETE /metrics HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
    ],
)
async def test_invalid_request_is_answered_and_not_logged(
    sent: bytes, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as port:
        answer = await soon(said(port, sent))
    assert answer.split(b" ", 2)[1] == status
    assert b"Python" not in answer
    assert b"aiohttp" not in answer
    assert caplog.records == []


async def test_failed_request_is_logged_and_its_answer_has_no_details(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serving() as port:
        answer = await soon(said(port, b"GET /failing HTTP/1.1\r\nHost: a\r\n\r\n"))
    assert b"500" in answer
    assert b"a defect" not in answer
    assert "an HTTP request failed" in capsys.readouterr().out


async def test_large_request_is_closed_without_an_answer() -> None:
    header = b"Cookie: " + b"a" * 1000 + b"\r\n"
    within, beyond = 8, 2 * MOST_REQUEST_BYTES // 1000
    async with serving() as port:
        for count, answered in ((within, True), (beyond, False)):
            request = GET[:-2] + header * count + b"\r\n"
            assert (b"figures" in await soon(said(port, request))) == answered


async def test_connection_carries_one_request() -> None:
    async with serving() as port:
        answer = await soon(said(port, GET * 100))
    assert answer.count(b"figures") == 1
    assert b"Connection: close" in answer


def test_result_is_reused_for_a_moment() -> None:
    now, made = 0.0, 0

    def make() -> int:
        nonlocal made
        made += 1
        return made

    reused = Reused(make, lambda: now)
    assert [reused() for _ in range(100)] == [1] * 100
    now += REUSED_S
    assert [reused() for _ in range(100)] == [2] * 100


async def test_many_scrapes_cost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics of 100 quorums take tens of milliseconds of the event loop."""
    monkeypatch.setattr(http_endpoint, "REUSED_S", 3600.0)
    operator = Application(Settings(http_host="127.0.0.1", http_port=0))
    rendered: list[bytes] = []
    render = operator.metrics.render
    monkeypatch.setattr(
        operator._scraped, "_make", lambda: rendered.append(render()) or rendered[-1]
    )
    port = await operator._serve()
    try:
        answers = [await soon(said(port, GET)) for _ in range(20)]
    finally:
        await operator.stop()
    assert len(rendered) == 1
    for answer in answers:
        assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in answer
        assert answer.endswith(rendered[0])


async def test_probe_and_metrics_are_all_that_is_served() -> None:
    operator = Application(Settings(http_host="127.0.0.1", http_port=0))
    port = await operator._serve()
    try:
        status = {}
        for path in ("/healthz", "/metrics", "/", "/metrics/", "/debug", "/statuses"):
            answer = await soon(said(port, f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()))
            status[path] = answer.split(b" ", 2)[1]
    finally:
        await operator.stop()
    assert [path for path, code in status.items() if code == b"200"] == ["/healthz", "/metrics"]
