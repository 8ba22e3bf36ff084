"""Bytes that are not valid HTTP, while the request before them is still handled: no error of the node, and no log line."""

import asyncio
from typing import Any

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.listener.http_server import AdminServer
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.transport.sockets import bind

HEADER = b"POST /v1/append HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
MALFORMED_CHUNK = b"ZZZ\r\n"
MOST_SECONDS = 10


async def test_request_whose_body_is_malformed_gets_one_answer() -> None:
    ended: list[BaseException | None] = []
    all_ended = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"refused"})
            ended.append(None)
        except Exception as error:
            ended.append(error)
        if len(ended) == 20:
            all_ended.set()

    metrics, sock = Metrics(), bind("127.0.0.1", 0)
    server = AdminServer(application, sock, metrics, ConnectionLimits())
    server.start()
    async with asyncio.timeout(MOST_SECONDS):
        for _ in range(20):
            reader, writer = await asyncio.open_connection(*sock.getsockname())
            writer.write(HEADER + MALFORMED_CHUNK)
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
        await all_ended.wait()
    await server.stop()
    assert ended == [None] * 20
    assert metrics.labelled["malformed_requests"] == {"admin": 20}
