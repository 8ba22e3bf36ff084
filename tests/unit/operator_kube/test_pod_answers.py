"""A pod whose image its owner chose can't occupy the operator, which serves all quorums: with an endless answer, one that
never completes, a compressed one, or thousands of voters.
"""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from quorum_node.api import (
    MAX_VOTERS,
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    Role,
    StorageDescription,
    StorageState,
    VoterModel,
    VotersPosition,
)
from quorum_operator.pod_client import MOST_BYTES, PodClient
from quorum_operator.quorum_client import Described, QuorumClient
from quorum_operator.transport import Transport

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextlib.asynccontextmanager
async def pod(answer: Answer, heads: list[str] | None = None) -> AsyncIterator[PodClient]:
    """A client whose calls, to any address, reach a process that answers with `answer`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if heads is not None:
            heads.append(head)
        try:
            await answer(writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    class Here(PodClient):
        port = server.sockets[0].getsockname()[1]

        def url_of(self, ip: str, path: str) -> str:
            return f"http://127.0.0.1:{self.port}{path}"

    async with server, httpx.AsyncClient(transport=Transport()) as http:
        yield Here(http)


async def call(client: PodClient, timeout_s: float = 30.0) -> httpx.Response:
    timeout = httpx.Timeout(timeout_s)
    return await client.request("GET", "10.0.0.1", "/v1/node", timeout=timeout)


async def test_endless_answer_ends_at_the_limit() -> None:
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"{HEAD}\r\n".encode())
        while sent < 64 * MOST_BYTES:
            writer.write(b" " * 65536)
            await writer.drain()
            sent += 65536

    async with asyncio.timeout(60), pod(endless) as client:
        with pytest.raises(httpx.ReadError, match=f"more than {MOST_BYTES} bytes"):
            await call(client)
    assert sent < 32 * MOST_BYTES


async def test_answer_of_the_largest_size_is_read() -> None:
    async def large(writer: asyncio.StreamWriter) -> None:
        writer.write(f"{HEAD}Content-Length: {MOST_BYTES}\r\n\r\n".encode() + b"x" * MOST_BYTES)
        await writer.drain()

    async with pod(large) as client:
        answer = await call(client)
    assert (answer.status_code, len(answer.content)) == (200, MOST_BYTES)


async def test_answer_that_does_not_complete_times_out() -> None:
    async def dripping(writer: asyncio.StreamWriter) -> None:
        writer.write(f"{HEAD}Content-Length: 100000\r\n\r\n".encode())
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with asyncio.timeout(60), pod(dripping) as client:
        with pytest.raises(httpx.ReadTimeout):
            await call(client, 2.0)


async def test_interim_answers_without_end_time_out() -> None:
    async def interim(writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with asyncio.timeout(60), pod(interim) as client:
        with pytest.raises(httpx.ReadTimeout):
            await call(client, 2.0)


async def test_compressed_answer_is_neither_requested_nor_unpacked() -> None:
    packed = gzip.compress(b"{}" + b" " * (64 * MOST_BYTES))

    async def bomb(writer: asyncio.StreamWriter) -> None:
        head = f"{HEAD}Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        writer.write(head.encode() + packed)
        await writer.drain()

    heads: list[str] = []
    async with pod(bomb, heads) as client:
        answer = await call(client)
    assert answer.content == packed
    assert "accept-encoding: identity\r\n" in heads[0].lower()


def replica(node_id: int) -> ReplicaStatus:
    return ReplicaStatus(
        id=node_id, uuid="U", log_end_offset=1, lag=0, fetching=True, caught_up=True
    )


def quorum(voters: int) -> QuorumDescription:
    return QuorumDescription(
        node_id=1,
        confirmed=True,
        leader_id=1,
        leader_uuid="U",
        leader_epoch=1,
        high_watermark=1,
        log_end_offset=1,
        cluster_id="c",
        formed=True,
        voters=[replica(each) for each in range(1, voters + 1)],
        observers=[],
        voters_position=VotersPosition(offset=1, epoch=1, committed=True),
        pending_change=False,
        own_epoch_committed=True,
        initial_voters=1,
    )


def node(voters: int) -> NodeDescription:
    return NodeDescription(
        node_id=1,
        replica_uuid="U",
        cluster_id="c",
        role=Role.LEADER,
        is_voter=True,
        leader_id=1,
        leader_epoch=1,
        high_watermark=1,
        log_end_offset=1,
        log_start_offset=0,
        caught_up=True,
        formed=True,
        storage=StorageDescription(state=StorageState.OK),
        started_at="2026-01-01T00:00:00Z",
        version="1",
        log_end_epoch=1,
        voters=[VoterModel(id=each, uuid="U") for each in range(1, voters + 1)],
    )


@pytest.mark.parametrize(
    ("voters", "accepted"), [(MAX_VOTERS, True), (MAX_VOTERS + 1, False), (3000, False)]
)
async def test_description_with_more_voters_than_a_quorum_can_have_is_no_answer(
    voters: int, accepted: bool
) -> None:
    """The planner compares voters with each other."""
    texts = [each.model_dump_json(by_alias=True) for each in (node(voters), quorum(voters))]

    async def answer(writer: asyncio.StreamWriter) -> None:
        body = texts.pop(0).encode()
        writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async with pod(answer) as client:
        nodes = QuorumClient(client.http, client)
        assert (await nodes.report("10.0.0.1", 1) is not None) is accepted
        texts += [texts[-1]]
        assert (await nodes.describe(["10.0.0.1"]) == Described(None, None)) is not accepted


async def test_number_that_no_metric_can_hold_is_no_answer() -> None:
    """One such lag would make the metrics of all quorums fail."""
    text = quorum(1).model_dump_json(by_alias=True)
    large = text.replace('"lag":0', f'"lag":{10**400}')
    assert large != text
    bodies = [text, large, large]

    async def answer(writer: asyncio.StreamWriter) -> None:
        body = bodies.pop(0).encode()
        writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()

    async with pod(answer) as client:
        nodes = QuorumClient(client.http, client)
        assert (await nodes.describe(["10.0.0.1"])).view is not None
        assert await nodes.describe(["10.0.0.1"]) == Described(None, None)
