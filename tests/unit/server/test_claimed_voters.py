"""Connections in the name of a voter: served at once, but without a certificate only for a part of each turn of the loop."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from quorum_node.protocol.apis import CREATE_TOPICS, FETCH
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.fetch import FetchRequest, FetchResponse, ReplicaState
from quorum_node.protocol.frames import encode_request
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.server.listener.claimed_voters import ClaimedVoters
from quorum_node.server.listener.kafka_connection import KafkaConnection
from quorum_node.server.listener.kafka_listener import KafkaListener
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.listener.port_authentication import Anonymous, ClearText
from quorum_node.server.observing.metrics import Metrics
from support.kept_bytes import Wire
from support.listener_settings import listener_settings

VOTER = 1
EMPTY = FetchResponse(error_code=0, responses=())


def fetches(*numbers: int) -> bytes:
    body = FetchRequest(
        replica_state=ReplicaState(replica_id=VOTER), max_wait_ms=0, min_bytes=0, topics=()
    )
    return b"".join(encode_request(FETCH, 17, number, "x", body) for number in numbers)


class Certified(ClearText):
    """Every client shows the certificate of the voter."""

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> Anonymous:
        identity = CertificateIdentity("ns", "q", Role.MEMBER, VOTER)
        return Anonymous(Caller("User:m", address, self.name, identity))


class Env:
    """A listener whose handler answers at once. `clock`: each request takes a millisecond of it."""

    def __init__(self, *, proven: bool = False) -> None:
        self.handled: list[int] = []
        self.now = 0.0
        authentication: Any = Certified("CONTROLLER", binds_ids=True) if proven else None
        self.listener = KafkaListener(
            listener_settings(max_request_bytes=8 << 20),
            self._handle,
            Metrics(),
            lambda *_: None,
            lambda: (VOTER,),
            authentication=authentication,
        )
        loop = asyncio.get_running_loop()
        self.listener.claimed = ClaimedVoters(loop, 0.002, lambda: self.now)

    def _handle(self, inbound: InboundRequest) -> None:
        self.handled.append(inbound.request.correlation_id)
        self.now += 0.001
        if inbound.request.api is FETCH:
            inbound.reply(EMPTY)

    async def connect(self, number: int) -> KafkaConnection:
        """A connection that has claimed to be the voter's."""
        connection = KafkaConnection(self.listener)
        connection.connection_made(Wire(("10.0.0.1", 1, 0, 0)))
        connection.data_received(fetches(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return connection


@pytest.mark.parametrize("proven", [False, True])
async def test_claimed_voters_share_a_part_of_a_turn(proven: bool) -> None:
    env = Env(proven=proven)
    connections = [await env.connect(number) for number in range(10)]
    no_turn: Any = SimpleNamespace(
        may_go_on=lambda _: False, add=lambda _: None, waiting=1, turn_seconds=1.0
    )
    env.listener.turns = no_turn
    env.handled.clear()
    for number, connection in enumerate(connections):
        connection.data_received(fetches(number))
    assert env.handled == (list(range(10)) if proven else [0, 1])
    await asyncio.sleep(0)
    env.handled.clear()
    connections[0].data_received(fetches(99))
    assert env.handled == [99], "the next turn has time again"


async def test_other_large_requests_are_not_decoded_on_the_loop_for_a_claimed_voter() -> None:
    env = Env()
    connection = await env.connect(1)
    topics = tuple(
        CreatableTopic(name=str(number), num_partitions=1, replication_factor=1)
        for number in range(2_000)
    )
    body = CreateTopicsRequest(topics=topics, timeout_ms=1)
    env.handled.clear()
    connection.data_received(encode_request(CREATE_TOPICS, 7, 2, "x", body))
    assert env.handled == []
    async with asyncio.timeout(10):
        while not env.handled:  # noqa: ASYNC110 - changes on a thread
            await asyncio.sleep(0.001)
    env.listener.large_messages.close()
