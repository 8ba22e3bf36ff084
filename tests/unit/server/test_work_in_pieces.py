"""Work that is done in pieces: others are served between two of them, and the order of one client's requests stays."""

import asyncio
from collections.abc import Iterator
from time import perf_counter

import pytest

from quorum_node.configuration.limits import ConnectionLimits
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS, CREATE_TOPICS
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.frames import encode_request
from quorum_node.server.listener.connection_limits import MAX_QUEUED_BYTES_OF_CLIENTS
from quorum_node.server.listener.fair_turns import FairTurns
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import KafkaListener, LoopShares
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.pieces import is_done
from quorum_node.storage.errors import DiskFull
from support.kept_bytes import Wire
from support.known_user import Known
from support.listener_settings import listener_settings

ANSWER = ApiVersionsResponse(error_code=0, api_keys=())
STEPS = 20
TURN_SECONDS = 0.0001
LONG = 1
"""Correlation id of the request whose work has many steps. Others are answered at once."""


def request(number: int, name: str = "x") -> bytes:
    body = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return encode_request(API_VERSIONS, 3, number, "me", body)


def spend(seconds: float) -> None:
    """Work for this time."""
    ends_at = perf_counter() + seconds
    while perf_counter() < ends_at:
        pass


class Env:
    """A listener on which every step of work ends a piece. `events`: what was done, in its order."""

    def __init__(self, principal_requests: int = 100) -> None:
        self.events: list[str] = []
        self.fails_at: int | None = None
        turns = FairTurns(asyncio.get_running_loop(), turn_seconds=TURN_SECONDS)
        self.listener = KafkaListener(
            listener_settings(
                max_request_bytes=1 << 20,
                limits=ConnectionLimits(principal_requests=principal_requests),
            ),
            self._handle,
            Metrics(),
            lambda why, detail, peer: None,
            shares=LoopShares(turns),
            authentication=Known("CONTROLLER"),
        )

    def connect(self) -> tuple[KafkaConnection, Wire]:
        connection, wire = KafkaConnection(self.listener), Wire()
        connection.connection_made(wire)
        return connection, wire

    def _handle(self, inbound: InboundRequest) -> None:
        if inbound.request.correlation_id == LONG:
            inbound.in_pieces(self._work(inbound))
        else:
            self.events.append("other")
            inbound.reply(ANSWER)

    def _work(self, inbound: InboundRequest) -> Iterator[None]:
        inbound.ends_on(DiskFull)
        for number in range(STEPS):
            if number == self.fails_at:
                raise DiskFull("no space")
            self.events.append("step")
            spend(2 * TURN_SECONDS)
            yield
        self.events.append("end")
        is_large = inbound.request.api is CREATE_TOPICS
        inbound.reply(CreateTopicsResponse(topics=()) if is_large else ANSWER)


def test_piece_ends_with_the_step_that_uses_up_its_time() -> None:
    work, now = iter(range(7)), iter(range(100))

    def clock() -> float:
        """Each step takes a second."""
        return float(next(now))

    pieces = 1
    while not is_done(work, 2.0, clock):
        pieces += 1
    assert pieces == 3


async def test_request_of_another_connection_is_answered_between_two_pieces() -> None:
    s = Env()
    (busy, busy_wire), (other, other_wire) = s.connect(), s.connect()
    busy.data_received(request(LONG))
    assert s.events == ["step"], "the first piece is done at once"
    other.data_received(request(2))
    await other_wire.until(lambda: other_wire.correlation_ids() == [2])
    assert s.events.index("other") < STEPS
    await busy_wire.until(lambda: busy_wire.correlation_ids() == [LONG])
    assert s.events.count("step") == STEPS


async def test_next_requests_of_the_connection_are_handled_after_the_work() -> None:
    s = Env()
    connection, wire = s.connect()
    connection.data_received(request(LONG) + request(2))
    connection.data_received(request(3))
    await wire.until(lambda: wire.correlation_ids() == [LONG, 2, 3])
    assert s.events[-3:] == ["end", "other", "other"]
    assert wire.reads


async def test_work_of_a_request_as_large_as_all_that_may_be_queued_is_finished() -> None:
    s = Env()
    connection, wire = s.connect()
    name = "x" * 1000
    count = MAX_QUEUED_BYTES_OF_CLIENTS // len(name) + 1
    body = CreateTopicsRequest(topics=(CreatableTopic(name=name),) * count)
    connection.data_received(encode_request(CREATE_TOPICS, 7, LONG, "me", body))
    await wire.until(lambda: wire.correlation_ids() == [LONG])
    s.listener.large_messages.close()


async def test_work_of_the_only_request_that_a_principal_may_have_is_finished() -> None:
    s = Env(principal_requests=1)
    connection, wire = s.connect()
    connection.data_received(request(LONG) + request(2))
    await wire.until(lambda: wire.correlation_ids() == [LONG, 2])


async def test_work_ends_with_the_connection() -> None:
    s = Env()
    connection, _ = s.connect()
    connection.data_received(request(LONG))
    connection.connection_lost(None)
    for _ in range(STEPS):
        await asyncio.sleep(0)
    assert s.events == ["step"]


@pytest.mark.parametrize("fails_at", [0, 2])
async def test_failure_that_the_handler_expects_ends_the_connection_in_any_piece(
    fails_at: int,
) -> None:
    s = Env()
    s.fails_at = fails_at
    connection, wire = s.connect()
    connection.data_received(request(2) + request(LONG))
    await wire.until(lambda: wire.is_closed)
    assert wire.correlation_ids() == [2]
    assert s.events == ["other"] + ["step"] * fails_at
