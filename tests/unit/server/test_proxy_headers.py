"""Headers of proxies: a caller on the same host can't choose the address and the scheme by which its rights are decided."""

from typing import Any

import httpx

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.server.listener.http_server import AdminServer
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.transport.sockets import bind


async def test_address_and_scheme_are_those_of_the_connection() -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sock = bind("127.0.0.1", 0)
    server = AdminServer(application, sock, Metrics(), ConnectionLimits())
    server.start()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}/"
    async with httpx.AsyncClient() as client:
        headers = {"x-forwarded-for": "10.9.8.7", "x-forwarded-proto": "https"}
        await client.get(url, headers=headers)
    await server.stop()
    assert seen == [("127.0.0.1", "http")]
