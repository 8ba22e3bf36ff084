"""Requests are sent as httpx made them, responses are returned unchanged, and errors are httpx's."""

import asyncio
import contextlib
import gzip
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from quorum_operator.transport import Transport
from support.generated_certificates import authority, issue, pem

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def raw(serve: Serve) -> AsyncIterator[str]:
    """A server that sends the bytes of the test; its address."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def head_of(reader: asyncio.StreamReader) -> list[str]:
    return (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]


def answer(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def scenario(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))  # type: ignore[arg-type]


def test_transport_sends_requests_and_returns_responses_unchanged() -> None:
    seen: list[Any] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await head_of(reader)
        length = next(each for each in head if each.lower().startswith("content-length"))
        seen.append((head, await reader.readexactly(int(length.partition(":")[2]))))
        packed = gzip.compress(b'{"a": "\xc3\xa4"}')
        headers = (
            "Content-Encoding: gzip",
            "Content-Type: application/json",
            "X-Two: 1",
            "X-Two: 2",
        )
        writer.write(answer(packed, *headers).replace(b"200 OK", b"209 Odd"))

    async def work() -> None:
        async with (
            raw(serve) as url,
            httpx.AsyncClient(base_url=url, transport=Transport()) as http,
        ):
            reported = await http.request(
                "PATCH",
                "/a%2Fb/c",
                params={"q": "x=1,y", "r": "ä"},
                content=b'{"b": 1}',
                headers={"Content-Type": "application/x", "Authorization": "Bearer t"},
            )
        assert (reported.status_code, reported.reason_phrase) == (209, "Odd")
        assert reported.json() == {"a": "ä"}
        assert reported.headers.get_list("X-Two") == ["1", "2"]

    scenario(work)
    (((first, *headers), body),) = seen
    assert first == "PATCH /a%2Fb/c?q=x%3D1%2Cy&r=%C3%A4 HTTP/1.1"
    assert body == b'{"b": 1}'
    lower = [each.lower() for each in headers]
    assert "content-type: application/x" in lower
    assert "authorization: bearer t" in lower
    assert len([each for each in lower if each.startswith("content-length")]) == 1
    assert len([each for each in lower if each.startswith("host")]) == 1
    assert not [each for each in lower if each.startswith("transfer-encoding")]


@pytest.mark.parametrize(("keeps", "connections"), [(True, 1), (False, 5)])
def test_connections_are_reused_only_where_configured(keeps: bool, connections: int) -> None:
    async def work() -> None:
        seen = set()

        async def handle(request: web.Request) -> web.Response:
            assert request.transport is not None
            seen.add(request.transport.get_extra_info("peername"))
            return web.Response(text="{}")

        app = web.Application()
        app.router.add_get("/", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with httpx.AsyncClient(transport=Transport(keeps=keeps)) as http:
            for _ in range(5):
                assert (await http.get(url)).json() == {}
        await runner.cleanup()
        assert len(seen) == connections

    scenario(work)


def test_stream_is_delivered_in_chunks_and_closes_its_connection_when_abandoned() -> None:
    async def work() -> None:
        closed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await head_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            await reader.read()  # until the other side hangs up
            closed.set()

        async with (
            raw(serve) as url,
            httpx.AsyncClient(transport=Transport(keeps=True)) as http,
        ):
            async with http.stream("GET", url) as reported:
                parts = reported.aiter_bytes()
                assert await anext(parts) == b"one"
                assert not closed.is_set()
            await closed.wait()

    scenario(work)


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)


async def _cuts(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(answer(b"whole")[:-2])


async def _is_no_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(b"SSH-2.0-x\r\n\r\n")


async def _stalls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await head_of(reader)
    writer.write(answer(b"whole")[:-2])
    await writer.drain()
    await reader.read()


@pytest.mark.parametrize(
    ("serve", "error"),
    [
        (_silent, httpx.ReadTimeout),
        (_stalls, httpx.ReadTimeout),
        (_hangs_up, httpx.ReadError),
        (_cuts, httpx.ReadError),
        (_is_no_server, httpx.ReadError),
    ],
)
def test_errors_are_raised_as_httpx_exceptions(serve: Serve, error: type[Exception]) -> None:
    async def work() -> None:
        async with raw(serve) as url, httpx.AsyncClient(transport=Transport()) as http:
            # A busy machine may take longer than the limit that silence is to exceed.
            read_s = 0.2 if error is httpx.ReadTimeout else 30
            with pytest.raises(error):
                await http.get(url, timeout=httpx.Timeout(30, read=read_s))

    scenario(work)


def test_connection_to_a_closed_port_is_refused() -> None:
    async def work() -> None:
        async with raw(_silent) as url:
            pass
        async with httpx.AsyncClient(transport=Transport()) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get(url)
            with pytest.raises(httpx.TransportError):
                await http.get(url.replace("http:", "https:"))

    scenario(work)


def test_cancelled_call_leaves_no_connection_or_task() -> None:
    async def work() -> None:
        begun, ended = asyncio.Semaphore(0), asyncio.Semaphore(0)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            begun.release()
            await reader.read()
            ended.release()

        async with (
            raw(serve) as url,
            httpx.AsyncClient(transport=Transport(keeps=True)) as http,
        ):
            calls = [asyncio.create_task(http.get(url, timeout=60)) for _ in range(20)]
            for _ in calls:
                await begun.acquire()
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            for _ in calls:
                await ended.acquire()

    scenario(work)


@pytest.mark.parametrize("uses", [True, False])
def test_proxy_of_the_environment_is_used_where_configured(
    uses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requested.append((await head_of(reader))[0])
        writer.write(answer(b"{}"))

    async def work() -> None:
        async with raw(serve) as proxy, raw(serve) as url:
            monkeypatch.setenv("http_proxy", proxy)
            monkeypatch.setenv("no_proxy", "localhost")
            async with httpx.AsyncClient(transport=Transport(proxies=uses)) as http:
                await http.get(f"{url}/x")
                await http.get(f"{url.replace('127.0.0.1', 'localhost')}/y")
            assert requested == [f"GET {url if uses else ''}/x HTTP/1.1", "GET /y HTTP/1.1"]

    scenario(work)


def test_response_of_a_megabyte_is_complete() -> None:
    document = {"items": ["x" * 100] * 10_000}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(answer(json.dumps(document).encode()))
        await writer.drain()

    async def work() -> None:
        async with raw(serve) as url, httpx.AsyncClient(transport=Transport()) as http:
            assert (await http.get(url)).json() == document

    scenario(work)


@pytest.mark.parametrize(
    ("trusted", "name", "arrives"),
    [
        ("mine", "demo-1.ns.svc", True),
        ("mine", "other.ns.svc", False),
        ("mine", None, False),
        ("another", "demo-1.ns.svc", False),
    ],
)
def test_certificate_is_verified_for_the_name_of_the_request(
    trusted: str, name: str | None, arrives: bool, tmp_path: Path
) -> None:
    """Pods are called at their address, and their certificates are for their names."""
    wide = {"start": datetime(2020, 1, 1, tzinfo=UTC), "end": datetime(2100, 1, 1, tzinfo=UTC)}
    authorities = {each: authority(each, **wide) for each in ("mine", "another")}
    signed = issue(issuer=authorities["mine"], hosts=("demo-1.ns.svc",), **wide)
    (tmp_path / "node.pem").write_bytes(signed.keystore)
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(tmp_path / "node.pem")
    here = ssl.create_default_context(cadata=pem(authorities[trusted].certificate).decode())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await head_of(reader)
            writer.write(answer(b"{}"))
            await writer.drain()
        writer.close()

    async def work() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=there)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        extensions = {} if name is None else {"sni_hostname": name}
        async with httpx.AsyncClient(transport=Transport(here)) as http:
            call = http.get(url, extensions=extensions)
            if arrives:
                assert (await call).json() == {}
            else:
                with pytest.raises(httpx.ConnectError):
                    await call
        server.close()

    scenario(work)
