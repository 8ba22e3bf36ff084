"""Spans of a running quorum, read from any replica that has the leader's records; others are replaced, and the result is the same."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest

from quorum_node.client.committed_log import VoterPlace
from quorum_node.client.connections import Address, Connections
from quorum_node.protocol.api import Api
from quorum_node.schema.schema import Message
from quorum_node.security.caller import Caller
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live import span_reader
from quorum_pipeline.live.live_rows import live_rows
from quorum_pipeline.live.quorum import Quorum
from quorum_pipeline.live.replica_log import ReplicaLog
from quorum_pipeline.live.span_reader import SpanReader
from support.hosted_node import NODE_ID, Node, running_node
from support.http_listener import http_listener
from support.one_answer_server import OneAnswerServer
from support.ports import free_ports

LEADER = "127.0.0.1:9093"
CALLER = Caller("User:reader", "127.0.0.1", "CONTROLLER")


class Served:
    """A node whose admin API listens on loopback."""

    def __init__(self, node: Node, server: asyncio.Server, listener: Any) -> None:
        self.node = node
        self._server = server
        self._listener = listener
        self.address: Address = server.sockets[0].getsockname()

    @property
    def name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def drop_connections(self) -> None:
        for each in list(self._listener.book):
            each.drop("test")

    def stop(self) -> None:
        self._server.close()
        self.drop_connections()


@asynccontextmanager
async def served(directory: Path, records: int, value: str = "x") -> AsyncIterator[Served]:
    async with running_node(directory) as node:
        for number in range(records):
            await node.append(0, f"key-{number}", value)
        async with node.client() as client:
            listener = http_listener(cast(Any, client._transport).app)
            loop = asyncio.get_running_loop()
            server = await loop.create_server(listener.make, "127.0.0.1", 0)
            found = Served(node, server, listener)
            try:
                yield found
            finally:
                found.stop()


class InOneLoop(Connections):
    """In place of sockets to the Kafka port of a node: its handlers, with requests and answers encoded as on the wire."""

    def __init__(self, node: Node) -> None:
        super().__init__("test")
        self._node = node
        self._loop = asyncio.get_running_loop()

    def ask(
        self, address: Address, api: Api, version: int, body: Message, answer: Any, seconds: float
    ) -> Any:
        response = self._node.ask(CALLER, api, body, version)
        return asyncio.run_coroutine_threadsafe(response, self._loop).result(seconds)


class Led(Quorum):
    """A quorum that this node leads. `others`: admin APIs of the other voters."""

    def __init__(
        self,
        node: Node,
        others: tuple[Address, ...] = (),
        replicas: tuple[Address, ...] | None = None,
    ) -> None:
        super().__init__([("leader", 9093)], 5.0, replicas=replicas)
        self._connections = InOneLoop(node)
        self._others = others

    def voters(self) -> tuple[VoterPlace, ...]:
        own = super().voters()
        end = own[0].log_end_offset
        return (*own, *(VoterPlace(200 + n, False, end, at) for n, at in enumerate(self._others)))


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_reader, "WORTH_OFFSETS", 2)
    monkeypatch.setattr(span_reader, "_unusable", {})


def read(quorum: Quorum, start: int, end: int) -> tuple[list[int], set[str]]:
    """Offsets of a span, and the servers that they came from."""
    offsets: list[int] = []
    servers: set[str] = set()
    for rows in live_rows(quorum, start, end, keep_problems=False):
        offsets += map(int, rows.offsets)
        servers.add(rows.source)
    return offsets, servers


def spans(end: int, count: int) -> Iterator[tuple[int, int]]:
    step = end // count
    return ((begin, begin + step) for begin in range(0, step * count, step))


async def test_spans_are_spread_over_the_leader_and_the_other_voters(tmp_path: Path) -> None:
    async with served(tmp_path, 40) as one:
        end = one.node.hosted.hosts[0].describe().high_watermark
        quorum = Led(one.node, (one.address,))
        voters = await asyncio.to_thread(quorum.voters)
        assert voters[0] == VoterPlace(NODE_ID, True, end, ("127.0.0.1", 8080))
        servers = []
        for begin, stop in spans(end, 4):
            offsets, found = await asyncio.to_thread(read, quorum, begin, stop)
            assert offsets == list(range(begin, stop))
            servers.append(found)
        assert servers == [{LEADER}, {one.name}] * 2
        chosen = Led(one.node, replicas=(one.address,))
        for begin, stop in spans(end, 3):
            assert (await asyncio.to_thread(read, chosen, begin, stop))[1] == {one.name}
        alone = Led(one.node, (one.address,), replicas=())
        assert (await asyncio.to_thread(read, alone, 0, end))[1] == {LEADER}


async def test_replica_that_has_not_the_span_is_replaced(tmp_path: Path) -> None:
    """Not reachable, of an earlier version, that lags behind, or of another cluster. Only the first two are not response again soon."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        one = await enter(served(tmp_path / "one", 20))
        behind = await enter(served(tmp_path / "behind", 3))
        other = await enter(served(tmp_path / "other", 30, "y"))
        page = (200, {"Content-Type": "application/json"}, b"{}")
        older = stack.enter_context(OneAnswerServer(page))
        host, _, port = older.url.removeprefix("http://").rpartition(":")
        closed: Address = ("127.0.0.1", free_ports(1)[0])
        wrong = (closed, (host, int(port)), behind.address, other.address)
        end = one.node.hosted.hosts[0].describe().high_watermark
        quorum = Led(one.node, replicas=(*wrong, one.address))
        expected = list(range(end))
        for _ in range(2):
            assert await asyncio.to_thread(read, quorum, 0, end) == (expected, {one.name})
        assert len(older.paths) == 1
        assert {*span_reader._unusable} == {*wrong[:2]}
        quorum = Led(one.node, replicas=wrong)
        assert await asyncio.to_thread(read, quorum, 0, end) == (expected, {LEADER})


async def test_replica_that_fails_within_a_span_is_replaced_where_it_ended(tmp_path: Path) -> None:
    async with served(tmp_path, 30) as one:
        end = one.node.hosted.hosts[0].describe().high_watermark
        quorum = Led(one.node, replicas=(one.address,))

        def first() -> tuple[SpanReader, int]:
            replica = ReplicaLog(one.address, None)
            with closing(replica):
                assert replica.read(0, end, max_bytes=1)[-1].header.end_offset < end
            reader = SpanReader(quorum, 0, end)
            return reader, reader.read(0)[0].header.end_offset

        reader, offset = await asyncio.to_thread(first)
        with closing(reader):
            assert reader.name == one.name
            one.drop_connections()  # as a server does with an idle one
            again = await asyncio.to_thread(reader.read, offset)
            assert (again[0].header.base_offset, reader.name) == (offset, one.name)
            one.stop()
            again = await asyncio.to_thread(reader.read, offset)
            assert (again[0].header.base_offset, reader.name) == (offset, LEADER)


async def test_offsets_that_no_server_has_are_an_error(tmp_path: Path) -> None:
    async with served(tmp_path, 5) as one:
        end = one.node.hosted.hosts[0].describe().high_watermark
        quorum = Led(one.node, replicas=(one.address,))
        with pytest.raises(PipelineError):
            await asyncio.to_thread(read, quorum, 0, end + 5)
