"""The operator's client for pods: it presents its own certificate, and accepts only a peer that proves to be the intended pod."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from quorum_operator.certificates import holders, issuing
from quorum_operator.certificates.issuing import Pair
from quorum_operator.desired.names import Owner
from quorum_operator.pod_client import TlsPodClient, client_context

OWNER = Owner("demo", "space", "uid")
AUTHORITY = issuing.new_authority(OWNER, 1, time.time())
MEMBER = holders.member(OWNER, 1, 1)
HOST = OWNER.host("demo-1-1")
OPERATOR = issuing.issue(OWNER, holders.operator(), AUTHORITY, time.time())


@asynccontextmanager
async def served(folder: Path, pair: Pair, shown: list[str]) -> AsyncIterator[int]:
    """A process that requires certificates; `shown`: the URIs of those that were presented."""
    file = folder / "pair.pem"
    file.write_text(pair.key_pem + pair.certificate.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    context.load_verify_locations(cadata=AUTHORITY.certificate.pem)
    context.verify_mode = ssl.CERT_REQUIRED

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names = writer.get_extra_info("peercert")["subjectAltName"]
        shown.extend(value for kind, value in names if kind == "URI")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


def called(
    folder: Path, *, server: Pair, host: str = HOST, trusted: Pair = AUTHORITY
) -> tuple[httpx.Response | None, list[str]]:
    """The response of the process, None where the operator rejects its certificate."""
    shown: list[str] = []

    async def call() -> httpx.Response | None:
        context = client_context(
            trusted.certificate.pem, OPERATOR.certificate.pem, OPERATOR.key_pem
        )
        async with (
            served(folder, server, shown) as port,
            httpx.AsyncClient(verify=context, trust_env=False) as http,
        ):
            pod_client = TlsPodClient(http, {"127.0.0.1": host}, "demo-admin.space.svc")
            pod_client.port = port
            try:
                limit = httpx.Timeout(5.0)
                return await pod_client.request("GET", "127.0.0.1", "/v1/node", timeout=limit)
            except httpx.TransportError:
                return None

    return asyncio.run(call()), shown


def test_pod_client_presents_the_operator_certificate_to_the_intended_pod(tmp_path: Path) -> None:
    member = issuing.issue(OWNER, MEMBER, AUTHORITY, time.time())
    answer, shown = called(tmp_path, server=member)
    assert answer is not None
    assert answer.text == "ok"
    assert shown == ["urn:metadataquorum:space:demo:operator"]


def test_another_pod_at_that_address_is_rejected(tmp_path: Path) -> None:
    other = issuing.issue(OWNER, holders.member(OWNER, 2, 1), AUTHORITY, time.time())
    assert called(tmp_path, server=other)[0] is None
    assert called(tmp_path, server=other, host="demo-admin.space.svc")[0] is not None


@pytest.mark.parametrize("trusted", [issuing.new_authority(OWNER, 1, time.time())])
def test_certificate_of_another_authority_is_rejected(tmp_path: Path, trusted: Pair) -> None:
    member = issuing.issue(OWNER, MEMBER, AUTHORITY, time.time())
    assert called(tmp_path, server=member, trusted=trusted)[0] is None


def test_every_certificate_is_rejected_without_trusted_authorities(tmp_path: Path) -> None:
    member = issuing.issue(OWNER, MEMBER, AUTHORITY, time.time())

    async def call() -> None:
        async with (
            served(tmp_path, member, []) as port,
            httpx.AsyncClient(verify=client_context(""), trust_env=False) as http,
        ):
            pod_client = TlsPodClient(http, {}, HOST)
            pod_client.port = port
            await pod_client.request("GET", "127.0.0.1", "/", timeout=httpx.Timeout(5.0))

    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        asyncio.run(call())
