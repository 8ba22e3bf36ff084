"""A bug behind a route is an answer and a log line, not a silent 500."""

import asyncio

import httpx
import pytest
from structlog.testing import capture_logs

from quorum_node.api import ErrorCode
from quorum_node.server.admin import app as app_module


def test_bug_is_logged_and_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(node: object, request: object, status: int, code: ErrorCode, message: str) -> object:
        return app_module.JSONResponse({"code": code.value, "message": message}, status)

    class BrokenNode:
        def __getattr__(self, name: str) -> object:
            raise ZeroDivisionError(name)

    monkeypatch.setattr(app_module, "error_response", refuse)
    app = app_module.create_app(BrokenNode())  # type: ignore[arg-type]

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://node") as client:
            return await client.get("/v1/node")

    with capture_logs() as lines:
        answer = asyncio.run(call())
        for _ in range(3):
            asyncio.run(call())
    assert len(lines) == 3, "of four times the third is not written"
    assert (answer.status_code, answer.json()["code"]) == (500, ErrorCode.INTERNAL)
    assert "internal error" in lines[0]["event"]
    assert isinstance(lines[0]["exc_info"], ZeroDivisionError)
