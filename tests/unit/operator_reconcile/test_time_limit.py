"""A reconcile that takes too long is reported with the calls that it was awaiting."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from quorum_operator import workers as module
from quorum_operator.admin_call import limit
from quorum_operator.awaited_calls import awaiting, recorded
from quorum_operator.kube.client import KubeApi
from quorum_operator.metrics import Metrics
from quorum_operator.pod_client import PodClient
from quorum_operator.reconcile import Next
from quorum_operator.transport import Transport
from quorum_operator.workers import Workers


async def _never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client closes the connection
    writer.close()
    await writer.wait_closed()


async def test_silent_servers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECONCILE_LIMIT_S", 0.5)
    server = await asyncio.start_server(_never_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    configuration: Any = SimpleNamespace(
        host=f"http://127.0.0.1:{port}", get_api_key_with_prefix=lambda _: None
    )
    pods = PodClient(httpx.AsyncClient(transport=Transport()))
    pods.url_of = lambda ip, path: f"http://{ip}:{port}{path}"  # type: ignore[method-assign]
    ended = asyncio.Event()
    async with KubeApi(configuration) as api:

        class Both:
            async def reconcile(self, _namespace: str, _name: str) -> Next:
                try:
                    await asyncio.gather(
                        api.get("/api/v1/namespaces/n/pods/demo-1"),
                        pods.request("GET", "127.0.0.1", "/v1/quorum", timeout=limit(30.0)),
                    )
                finally:
                    ended.set()
                return Next()

        workers = Workers("MetadataQuorum", Both(), Metrics(), 10.0)
        with capture_logs() as lines:
            workers.ensure("n", "demo")
            async with asyncio.timeout(30):
                await ended.wait()
            await workers.stop()
    await pods.http.aclose()
    server.close()
    await server.wait_closed()
    (line,) = [each for each in lines if each["event"] == "reconcile failed"]
    assert line["name"] == "demo"
    assert "took more than" in line["error"]
    assert "GET /api/v1/namespaces/n/pods/demo-1 (" in line["error"]
    assert f"GET http://127.0.0.1:{port}/v1/quorum (" in line["error"]


async def test_a_call_that_was_given_up_earlier_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = [0.0, 1.0, 1.0, 60.0]
    monkeypatch.setattr(
        "quorum_operator.awaited_calls.time", SimpleNamespace(monotonic=lambda: seconds.pop(0))
    )
    with recorded() as awaited:
        assert awaited.text() == "no call"
        for call in ("earlier", "last"):
            with pytest.raises(asyncio.CancelledError), awaiting(call):
                raise asyncio.CancelledError
    assert awaited.text() == "last (59 s)"
