"""The Kafka listener: whole requests out of pieces, answers in order, a turn for everyone."""

import asyncio
import math
import struct
from collections.abc import Callable

import pytest

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.protocol.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from quorum_node.protocol.apis import API_VERSIONS, APIS
from quorum_node.protocol.frames import decode_response, encode_request
from quorum_node.protocol.metadata import MetadataResponse, MetadataTopic
from quorum_node.server.listener import kafka_listener
from quorum_node.server.listener.connection_limits import MAX_FRAMES_PER_TURN
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import (
    KafkaListener,
    KafkaListeners,
    LoopShares,
    ServedApis,
)
from quorum_node.server.listener.loop_work import LoopWork
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.port_authentication import PortAuthentication
from quorum_node.server.observing.metrics import Metrics
from support.kept_bytes import Wire
from support.known_user import Known
from support.listener_settings import listener_settings
from support.ports import free_ports

ANSWER = ApiVersionsResponse(error_code=0, api_keys=())
MAX_BYTES = 1 << 20


def answered(wire: Wire) -> list[int]:
    """Correlation ids of the answers so far, which have to be answers to ApiVersions."""
    for frame in wire.frames():
        decode_response(API_VERSIONS, 3, frame)
    return wire.correlation_ids()


class Env:
    """One connection; requests wait in `asked` unless they are answered at once."""

    def __init__(
        self,
        *,
        at_once: bool = True,
        authentication: PortAuthentication | None = None,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.asked: list[InboundRequest] = []
        self.metrics = Metrics()
        self.refused: list[str] = []
        handler: Callable[[InboundRequest], None] = (
            (lambda inbound: inbound.reply(ANSWER)) if at_once else self.asked.append
        )
        # How long work takes is no matter here: see `test_fair_turns`.
        turns = FairTurns(asyncio.get_running_loop(), turn_seconds=math.inf)
        self.work = LoopWork()
        listener = KafkaListener(
            listener_settings(max_request_bytes=MAX_BYTES, limits=limits),
            handler,
            self.metrics,
            lambda why, detail, peer: self.refused.append(why),
            shares=LoopShares(turns, self.work),
            authentication=authentication,
        )
        self.listener = listener
        self.connection, self.wire = self.connect()

    def connect(
        self, peername: tuple[str, int, int, int] | None = None
    ) -> tuple[KafkaConnection, Wire]:
        connection, wire = KafkaConnection(self.listener), Wire(peername)
        connection.connection_made(wire)
        return connection, wire


def requests(*numbers: int, name: str = "x") -> bytes:
    body = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return b"".join(encode_request(API_VERSIONS, 3, number, "me", body) for number in numbers)


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_request_has_the_authenticated_principal_of_its_connection() -> None:
    s = Env(at_once=False)
    s.connection.data_received(requests(1, 2))
    first, second = (each.caller for each in s.asked)
    assert first is second, "it is made once for a connection"
    assert (first.principal, first.host) == ("User:ANONYMOUS", "")
    assert (first.listener, first.identity) == ("CONTROLLER", None)
    await turns()


async def test_limit_of_an_address_counts_on_a_socket_for_both_protocols() -> None:
    """Linux shows the address of an IPv4 client of an IPv6 socket in another form."""
    s = Env(limits=ConnectionLimits(per_address={"10.0.0.9": 1}))
    opened = [s.connect(("::ffff:10.0.0.9", 1, 0, 0)) for _ in range(2)]
    assert [connection.address for connection, _ in opened] == ["10.0.0.9"] * 2
    assert [wire.is_closed for _, wire in opened] == [True, False]
    connection, _ = s.connect(("fd00::ffff:9", 1, 0, 0))
    assert connection.address == "fd00::ffff:9"


@pytest.mark.parametrize("piece", [1, 3, 50, 10_000])
async def test_requests_in_chunks_of_any_size_are_parsed(piece: int) -> None:
    s = Env()
    stream = requests(1, 2) + requests(3, name="long" * 8_000) + requests(4)
    step = piece if piece > 3 else piece * 40
    head = stream[:200]
    for start in range(0, len(head), piece):
        s.connection.data_received(head[start : start + piece])
    for start in range(len(head), len(stream), step):
        s.connection.data_received(stream[start : start + step])
    await s.wire.until(lambda: len(answered(s.wire)) == 4)
    assert answered(s.wire) == [1, 2, 3, 4]
    assert s.metrics.labelled["requests"]["ApiVersions"] == 4
    times = s.metrics.durations["request_total_time_seconds"]["ApiVersions"]
    assert times.count == 4
    assert not s.wire.is_closed
    await turns()


async def test_responses_are_sent_in_request_order() -> None:
    s = Env(at_once=False)
    s.connection.data_received(requests(1, 2, 3))
    for index in (2, 0):
        s.asked[index].reply(ANSWER)
    assert answered(s.wire) == [1]
    s.asked[1].reply(ANSWER)
    assert answered(s.wire) == [1, 2, 3]
    await turns()


async def test_pipelined_requests_are_bounded_and_pause_reading() -> None:
    seen: list[int] = []
    s = Env()
    numbers = range(1, 3 * MAX_FRAMES_PER_TURN + 2)
    s.connection.data_received(requests(*numbers))
    seen.append(len(answered(s.wire)))
    assert not s.wire.reads
    s.connection.data_received(requests(1000))  # was under way already
    for _ in range(10):
        await asyncio.sleep(0)
    assert answered(s.wire) == [*numbers, 1000]
    assert s.wire.reads
    assert seen == [MAX_FRAMES_PER_TURN]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack(">i", MAX_BYTES + 1), "malformed"),
        (struct.pack(">i", -1), "malformed"),
        (struct.pack(">ihhih", 10, 18, 3, 1, 9), "malformed"),
        (struct.pack(">ihhih", 10, 999, 0, 1, -1), "unsupported"),
    ],
)
async def test_invalid_request_closes_the_connection(data: bytes, why: str) -> None:
    s = Env()
    s.connection.data_received(requests(1) + data + requests(2))
    assert s.wire.is_closed
    assert s.refused == [why]
    assert s.metrics.labelled["malformed_requests"]["controller"] == 1
    assert answered(s.wire) in ([], [1])
    before = s.wire.written
    s.connection.data_received(requests(3))
    assert s.wire.written == before
    await turns()


def test_each_listener_has_its_own_name_limits_and_counters() -> None:
    """They share the handler and the loop's time."""

    async def play() -> None:
        metrics, callers = Metrics(), list[str]()

        def handler(inbound: InboundRequest) -> None:
            callers.append(inbound.caller.listener)
            inbound.reply(ANSWER)

        ports = free_ports(2)
        settings = (
            listener_settings("CONTROLLER", port=ports[0]),
            listener_settings("TOOLS", port=ports[1], max_request_bytes=1 << 10),
        )
        listeners = KafkaListeners(
            settings, ServedApis(handler, APIS), metrics, lambda *reported: None, tuple
        )
        await listeners.start()
        for port, closes in zip(ports, (False, True), strict=True):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(requests(1))
            assert await asyncio.wait_for(reader.readexactly(4), 10)
            writer.write(struct.pack(">i", 1 << 12))
            writer.write(b"x")
            if closes:
                assert await asyncio.wait_for(reader.read(), 10), (
                    "the rest of the answer, then the end"
                )
            else:
                assert listeners.connections == 1
            writer.close()
        await listeners.close(1)
        assert callers == ["CONTROLLER", "TOOLS"]
        assert metrics.labelled["malformed_requests"] == {"tools": 1}

    asyncio.run(asyncio.wait_for(play(), 30))


async def test_connections_of_one_principal_share_its_request_limit() -> None:
    limits = ConnectionLimits(principal_requests=4)
    s = Env(at_once=False, authentication=Known("CONTROLLER"), limits=limits)
    s.connection.data_received(requests(1, 2, 3))
    other, wire = s.connect()
    other.data_received(requests(4))
    assert (s.wire.reads, wire.reads) == (True, False), (
        "the connection with the fourth request is not read"
    )
    s.connection.data_received(requests(5))
    assert not s.wire.reads
    assert [each.request.correlation_id for each in s.asked] == [1, 2, 3, 4]
    s.asked[0].reply(ANSWER)
    assert not wire.reads
    s.asked[1].reply(ANSWER)
    assert wire.reads, "half are answered"
    await turns()


async def test_principal_waits_when_its_time_share_is_used_up() -> None:
    """Another connection of the same user pays for it, too."""
    s = Env(authentication=Known("CONTROLLER"))
    s.connection.data_received(requests(1))
    assert answered(s.wire) == [1]
    s.work.add(1e6)  # others need the loop, too
    s.listener.share_of(Known.user).spent(10.0)
    other, wire = s.connect()
    other.data_received(requests(2))
    assert answered(wire) == []
    assert not wire.reads
    s.listener.share_of(Known.user).spent(-10.0)
    other.may_read_again()
    await turns()
    assert answered(wire) == [2], "there was time again"
    assert wire.reads


async def test_lost_connection_frees_its_requests_for_others_of_its_principal() -> None:
    limits = ConnectionLimits(principal_requests=2)
    s = Env(at_once=False, authentication=Known("CONTROLLER"), limits=limits)
    s.connection.data_received(requests(1, 2))
    other, wire = s.connect()
    other.data_received(requests(3))
    assert not wire.reads
    s.connection.connection_lost(None)
    await turns()
    assert [each.request.correlation_id for each in s.asked] == [1, 2, 3]


async def test_failed_request_without_a_response_closes_the_connection_in_order() -> None:
    """Produce with acks=0: the requests before it are answered, those after it are not."""
    s = Env(at_once=False)
    s.connection.data_received(requests(1, 2, 3))
    s.asked[2].reply(ANSWER)
    s.asked[1].leave_unanswered(failed=True)
    assert not s.wire.is_closed
    s.asked[0].reply(ANSWER)
    assert s.wire.is_closed
    assert answered(s.wire) == [1]
    await turns()


async def test_request_without_a_response_keeps_the_connection() -> None:
    s = Env(at_once=False)
    s.connection.data_received(requests(1, 2))
    s.asked[0].leave_unanswered(failed=False)
    s.asked[1].reply(ANSWER)
    assert not s.wire.is_closed
    assert answered(s.wire) == [2]
    await turns()


async def test_response_that_cannot_be_encoded_closes_only_its_connection() -> None:
    s = Env(at_once=False)
    s.connection.data_received(requests(1))
    # Before version 12 a name can't be null.
    nameless = MetadataTopic(error_code=0, name=None, topic_id=None, partitions=())
    s.asked[0].reply(MetadataResponse(brokers=(), topics=(nameless,)))
    assert s.wire.is_closed
    assert not s.wire.written
    assert s.refused == ["unanswered"]
    assert s.metrics.labelled["malformed_requests"]["controller"] == 1
    other = s.connect()
    other[0].data_received(requests(2))
    s.asked[1].reply(ANSWER)
    assert answered(other[1]) == [2]
    await turns()


async def test_connection_that_was_being_accepted_when_the_listener_closed_is_closed() -> None:
    env = Env()
    await env.listener.close(0.0)
    wire = Wire()
    KafkaConnection(env.listener).connection_made(wire)
    assert wire.is_closed


async def test_of_a_large_request_only_the_header_is_kept_while_its_answer_is_awaited() -> None:
    env = Env(at_once=False)
    env.connection.data_received(requests(1) + requests(2, name="x" * 10_000))
    async with asyncio.timeout(10):
        while len(env.asked) < 2:  # noqa: ASYNC110 - changes on a thread
            await asyncio.sleep(0.001)
    assert [each.request.body is None for each in env.asked] == [False, True]
    for each in env.asked:
        each.reply(ANSWER)
    async with asyncio.timeout(10):
        while answered(env.wire) != [1, 2]:  # noqa: ASYNC110 - the answer is encoded on a thread
            await asyncio.sleep(0.001)


LARGE = ApiVersionsResponse(
    error_code=0, api_keys=(ApiVersion(api_key=1, min_version=0, max_version=1),) * 40_000
)
"""Of 280 KB."""


async def test_answers_that_wait_for_an_earlier_one_are_bounded() -> None:
    """Otherwise one connection could hold 255 answers of 8 MiB behind a request that waits for a minute."""
    env = Env(at_once=False)
    handled: list[int] = []

    def handle(inbound: InboundRequest) -> None:
        handled.append(inbound.request.correlation_id)
        if len(handled) == 1:
            env.asked.append(inbound)
        else:
            inbound.reply(LARGE)

    env.listener.handler = handle
    connection, wire = env.connect()
    connection.data_received(requests(*range(30)))
    async with asyncio.timeout(10):
        while connection.unsent_bytes <= 1 << 20:  # noqa: ASYNC110 - they may be encoded on a thread
            await asyncio.sleep(0.001)
    for _ in range(100):
        await turns()
    assert len(handled) <= 10
    assert wire.frames() == []
    assert connection.unsent_bytes > 1 << 20
    env.asked[0].reply(ANSWER)
    await wire.until(lambda: len(wire.correlation_ids()) == 30)
    assert wire.correlation_ids() == handled == list(range(30))
    assert connection.unsent_bytes == 0


async def test_connection_with_too_many_answers_that_wait_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those whose requests were handled before, and are answered later."""
    monkeypatch.setattr(kafka_listener, "MAX_UNSENT_BYTES", 2 << 20)
    env = Env(at_once=False)
    other, quiet = env.connect()
    env.connection.data_received(requests(*range(20)))
    await turns()
    for each in env.asked[1:]:
        each.reply(LARGE)
    assert env.wire.is_closed
    assert not quiet.is_closed
    assert env.metrics.labelled["connections_closed"] == {"controller unsent": 1}
    assert other.unsent_bytes == 0
