"""Answers that are not the API server's, such as those of a proxy in front of it: an outage, and no bug of the operator."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from quorum_operator.kube.client import KubeApi
from quorum_operator.kube.errors import ApiError, Unavailable
from quorum_operator.refused import is_outage

BODIES = [b"", b"<html>sign in</html>", b'"upstream connect error"', b"[]", b"null", b"\xff\xfe"]


def answered(status: int, body: bytes) -> ApiError:
    async def run() -> None:
        configuration: Any = SimpleNamespace(
            host="http://api", get_api_key_with_prefix=lambda _: None
        )
        async with KubeApi(configuration) as api:
            answer = httpx.Response(status, content=body)
            transport = httpx.MockTransport(lambda request: answer)
            api._http = httpx.AsyncClient(base_url="http://api", transport=transport)
            await api.get("/api/v1/nodes/h1")

    with pytest.raises(ApiError) as caught:
        asyncio.run(run())
    return caught.value


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", [200, 502, 503])
def test_it_is_an_outage(status: int, body: bytes) -> None:
    error = answered(status, body)
    assert isinstance(error, Unavailable)
    assert is_outage(error)


def test_a_denial_without_a_document_is_a_denial() -> None:
    error = answered(403, b'"no"')
    assert (error.status, error.message) == (403, '"no"')
