"""The OpenAPI document is made on a thread, and once."""

import asyncio
import threading
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

from quorum_node.server.admin.api_document import DocumentedApp


async def test_document_is_made_once_and_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    make = FastAPI.openapi

    def openapi(app: FastAPI) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return make(app)

    monkeypatch.setattr(FastAPI, "openapi", openapi)
    app = DocumentedApp(title="a node")
    transport = httpx.ASGITransport(cast(Any, app))
    async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
        answers = await asyncio.gather(*(client.get("/openapi.json") for _ in range(3)))
    assert [each.json()["info"]["title"] for each in answers] == ["a node"] * 3
    assert {each.headers["content-type"] for each in answers} == {"application/json"}
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()
