"""Connections to peers over real sockets: every send ends once, and in the right way."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import CONTROLLER_REGISTRATION, ENVELOPE, VOTE
from quorum_node.protocol.broker_apis import DATA_FETCH
from quorum_node.protocol.controller_registration import ControllerRegistrationResponse
from quorum_node.protocol.envelope import EnvelopeRequest
from quorum_node.protocol.fetch import FetchRequest as BrokerFetchRequest
from quorum_node.protocol.fetch import (
    FetchResponse,
    FetchResponsePartition,
    FetchResponseTopic,
    ReplicaState,
)
from quorum_node.protocol.frames import Request, encode_response
from quorum_node.raft.config import CONTROLLER
from quorum_node.raft.events import FailureReason
from quorum_node.raft.messages import (
    FetchRequest,
    OutboundRequest,
    ReadOffsetRequest,
)
from quorum_node.records.identity import Endpoint
from quorum_node.schema.schema import Message
from quorum_node.server.controller.registrar import own_registration
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.peers.connection import LARGEST_RESPONSE_BYTES, MAX_RESPONSE_BYTES
from quorum_node.server.peers.pool import PeerPool
from support.peer_outcomes import ANSWER, ME, VOTE_REQUEST, Outcomes, grant
from support.peer_stand_in import Handle, Peer

FETCH_REQUEST = FetchRequest("c", ME, 5, 30, 4)


async def silence(request: Request, writer: asyncio.StreamWriter) -> None:
    """A frozen peer."""


async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def send_garbage(request: Request, writer: asyncio.StreamWriter) -> None:
    writer.write(struct.pack(">ii", 8, request.correlation_id) + b"\xff\xff\xff\xff")


def pool_for(outcomes: Outcomes) -> PeerPool:
    pool = PeerPool(
        "test",
        Metrics(),
        partitions=1,
        reconnect_backoff_ms=1,
        on_malformed=lambda peer, text: None,
    )
    pool.attach(0, outcomes)
    return pool


def run(
    handle: Handle, requests: list[tuple[OutboundRequest, float]], *, rounds: int = 1
) -> list[object]:
    """Send each request, all at once, `rounds` times over; returns how each ended."""

    async def scenario() -> list[object]:
        peer = Peer(handle)
        await peer.start()
        outcomes = Outcomes()
        pool = pool_for(outcomes)
        number = 0
        found = []
        for _ in range(rounds):
            first = number
            for request, timeout_ms in requests:
                pool.send(0, number, peer.endpoint, request, timeout_ms)
                number += 1
            found += [await outcomes.of(each) for each in range(first, number)]
        assert pool.in_flight == 0
        pool.close()
        peer.close()
        return found

    return asyncio.run(scenario())


def test_requests_are_pipelined_and_answered() -> None:
    assert run(grant, [(VOTE_REQUEST, 5000)] * 5, rounds=3) == [ANSWER] * 15


def test_closed_connection_is_reported_immediately() -> None:
    found = run(hang_up, [(VOTE_REQUEST, 60_000), (VOTE_REQUEST, 60_000)], rounds=2)
    assert found == [FailureReason.CLOSED] * 4


def test_frozen_peer_is_a_timeout_and_never_a_closed_connection() -> None:
    found = run(silence, [(VOTE_REQUEST, 50), (VOTE_REQUEST, 60_000)])
    assert found == [FailureReason.TIMEOUT] * 2


def test_refused_connection_is_reported_immediately() -> None:
    async def scenario() -> object:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            endpoint = Endpoint(CONTROLLER, "127.0.0.1", unused.getsockname()[1])
            outcomes = Outcomes()
            pool = pool_for(outcomes)
            pool.send(0, 1, endpoint, VOTE_REQUEST, 60_000)
            return await outcomes.of(1)

    assert asyncio.run(scenario()) is FailureReason.REFUSED


def test_invalid_response_closes_the_connection() -> None:
    assert run(send_garbage, [(VOTE_REQUEST, 60_000)]) == [FailureReason.CLOSED]


@pytest.mark.requirement("K650-03")
async def test_peer_without_the_read_offset_api_is_not_treated_as_closed() -> None:
    peer = Peer(grant, stock=True)
    await peer.start()
    outcomes = Outcomes()
    pool = pool_for(outcomes)
    pool.send(0, 1, peer.endpoint, ReadOffsetRequest("c"), 60_000)
    assert await outcomes.of(1) is FailureReason.UNSUPPORTED
    pool.close()
    peer.close()


async def test_request_to_the_active_controller_is_answered_once_and_delays_no_vote() -> None:
    release = asyncio.Event()

    async def commit_late(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.api is VOTE:
            await grant(request, writer)
            return
        await release.wait()
        body = ControllerRegistrationResponse(error_code=41)
        writer.write(encode_response(request.api, 0, request.correlation_id, body))

    peer = Peer(commit_late)
    await peer.start()
    outcomes = Outcomes()
    pool = pool_for(outcomes)
    own = own_registration(ME, peer.endpoint)
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    pool.ask(peer.endpoint, CONTROLLER_REGISTRATION, own, answered.set_result, timeout_ms=60_000)
    pool.send(0, 1, peer.endpoint, VOTE_REQUEST, 60_000)
    assert await outcomes.of(1) == ANSWER
    assert not answered.done()
    release.set()
    answer = await answered
    assert isinstance(answer, ControllerRegistrationResponse)
    assert answer.error_code == 41
    peer.close()
    gone: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    pool.ask(peer.endpoint, CONTROLLER_REGISTRATION, own, gone.set_result, timeout_ms=60_000)
    assert await gone in (FailureReason.CLOSED, FailureReason.REFUSED)
    pool.close()


_PARKED: dict[Api, Message] = {
    DATA_FETCH: BrokerFetchRequest(
        replica_id=1,
        replica_state=ReplicaState(replica_id=1, replica_epoch=5),
        max_wait_ms=500,
        min_bytes=1,
        topics=(),
    ),
    ENVELOPE: EnvelopeRequest(
        request_data=b"", request_principal=b"", client_host_address=bytes(4)
    ),
}


@pytest.mark.parametrize("parked", _PARKED, ids=lambda each: each.name)
async def test_request_to_another_node_is_not_queued_behind_a_long_one(parked: Api) -> None:
    """The verification of a transaction, and a heartbeat. A stock node does not even read it before it has answered the other one."""

    release = asyncio.Event()

    async def park(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.api.key == parked.key:
            await release.wait()
            return
        body = ControllerRegistrationResponse(error_code=41)
        writer.write(encode_response(request.api, 0, request.correlation_id, body))

    peer = Peer(park)
    await peer.start()
    pool = pool_for(Outcomes())
    ended: list[object] = []
    pool.ask(peer.endpoint, parked, _PARKED[parked], ended.append, timeout_ms=60_000)
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    own = own_registration(ME, peer.endpoint)
    pool.ask(peer.endpoint, CONTROLLER_REGISTRATION, own, answered.set_result, timeout_ms=20_000)
    assert isinstance(await answered, ControllerRegistrationResponse)
    assert not ended
    release.set()
    pool.close()
    peer.close()


async def test_follower_takes_one_batch_of_any_size() -> None:
    """Its leader may be a stock broker, which accepts batches of 100 MB, if the topic does."""
    records = bytes(MAX_RESPONSE_BYTES)

    async def serve(request: Request, writer: asyncio.StreamWriter) -> None:
        each = FetchResponsePartition(
            partition_index=0, error_code=0, high_watermark=0, records=records
        )
        topic = FetchResponseTopic(topic="t", topic_id=UUID(int=7), partitions=(each,))
        body = FetchResponse(responses=(topic,))
        frame = encode_response(request.api, request.version, request.correlation_id, body)
        writer.write(frame)

    peer = Peer(serve)
    await peer.start()
    pool = PeerPool(
        "test",
        Metrics(),
        partitions=1,
        reconnect_backoff_ms=1,
        on_malformed=lambda peer, text: None,
        max_response_bytes=LARGEST_RESPONSE_BYTES,
    )
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    body = BrokerFetchRequest(replica_id=1, max_wait_ms=500, min_bytes=1, topics=())
    pool.ask(peer.endpoint, DATA_FETCH, body, answered.set_result, timeout_ms=60_000)
    answer = await answered
    assert isinstance(answer, FetchResponse)
    assert len(answer.responses[0].partitions[0].records or b"") == MAX_RESPONSE_BYTES
    pool.close()
    peer.close()


async def test_vote_is_not_queued_behind_a_waiting_read() -> None:
    async def park_reads(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.api is not VOTE:
            await asyncio.Event().wait()
        await grant(request, writer)

    peer = Peer(park_reads)
    await peer.start()
    outcomes = Outcomes()
    pool = pool_for(outcomes)
    pool.send(0, 1, peer.endpoint, ReadOffsetRequest("c"), 60_000)
    pool.send(0, 2, peer.endpoint, VOTE_REQUEST, 60_000)
    assert await outcomes.of(2) == ANSWER
    assert 1 not in outcomes.ended
    peer.close()
    pool.close()


async def test_vote_is_not_queued_behind_a_parked_fetch() -> None:
    async def park_fetches(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.api is not VOTE:
            # Answers come in order: nothing behind it on this connection is answered either.
            await asyncio.Event().wait()
        await grant(request, writer)

    peer = Peer(park_fetches)
    await peer.start()
    outcomes = Outcomes()
    pool = pool_for(outcomes)
    pool.send(0, 1, peer.endpoint, FETCH_REQUEST, 60_000)
    pool.send(0, 2, peer.endpoint, VOTE_REQUEST, 60_000)
    assert await outcomes.of(2) == ANSWER
    assert 1 not in outcomes.ended
    peer.close()
    assert await outcomes.of(1) is FailureReason.CLOSED
    pool.close()


def test_peer_reconnects_after_a_failure() -> None:
    seen: list[int] = []

    async def first_hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
        seen.append(1)
        await (hang_up if len(seen) == 1 else grant)(request, writer)

    assert run(first_hang_up, [(VOTE_REQUEST, 5000)], rounds=3) == [
        FailureReason.CLOSED,
        ANSWER,
        ANSWER,
    ]


@pytest.mark.parametrize("handle", [grant, silence, hang_up, send_garbage])
def test_no_callback_after_the_pool_was_closed(handle: Handle) -> None:
    async def scenario() -> dict[int, object]:
        peer = Peer(handle)
        await peer.start()
        outcomes = Outcomes()
        pool = pool_for(outcomes)
        pool.send(0, 1, peer.endpoint, VOTE_REQUEST, 20)
        pool.close()
        await asyncio.sleep(0.05)
        peer.close()
        return outcomes.ended

    assert asyncio.run(scenario()) == {}


async def answered(request: Request, writer: asyncio.StreamWriter) -> None:
    """A vote at once; a fetch is parked."""
    if request.api is VOTE:
        await grant(request, writer)


def in_warm_pool(
    scenario: Callable[[PeerPool, Peer, Outcomes], Awaitable[None]], *, partitions: int = 1
) -> None:
    """With connections that are ready before anything was sent."""

    async def run_it() -> None:
        peer, outcomes = Peer(answered), Outcomes()
        await peer.start()
        pool = PeerPool(
            "test",
            Metrics(),
            partitions=partitions,
            reconnect_backoff_ms=1,
            on_malformed=lambda peer, text: None,
        )
        for partition in range(partitions):
            pool.attach(partition, outcomes)
        pool.warm(peer.endpoint)
        await until(lambda: ready(pool, peer) == 2)
        await scenario(pool, peer, outcomes)
        pool.close()
        peer.close()

    asyncio.run(run_it())


def ready(pool: PeerPool, peer: Peer) -> int:
    """Connections that need no handshake any more."""
    return pool.ready_connections(peer.endpoint)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what changes is in the code under test
            await asyncio.sleep(0.001)


def test_election_and_first_fetch_need_no_handshake() -> None:
    async def scenario(pool: PeerPool, peer: Peer, outcomes: Outcomes) -> None:
        pool.send(0, 1, peer.endpoint, VOTE_REQUEST, 5000)
        pool.send(0, 2, peer.endpoint, FETCH_REQUEST, 5000)
        assert await outcomes.of(1) == ANSWER
        pool.warm(peer.endpoint)
        assert (ready(pool, peer), len(peer.writers)) == (2, 2)

    in_warm_pool(scenario)


def test_idle_connection_is_reused_beside_parked_fetches() -> None:
    async def scenario(pool: PeerPool, peer: Peer, outcomes: Outcomes) -> None:
        for partition in range(2):
            pool.send(partition, partition, peer.endpoint, FETCH_REQUEST, 5000)
            await asyncio.sleep(0)
        await until(lambda: ready(pool, peer) == 3)
        for _ in range(20):
            pool.warm(peer.endpoint)
            await asyncio.sleep(0.001)
        assert len(peer.writers) == 3

    in_warm_pool(scenario, partitions=3)


def test_connection_closed_by_the_peer_is_reopened() -> None:
    async def scenario(pool: PeerPool, peer: Peer, outcomes: Outcomes) -> None:
        for writer in peer.writers:
            writer.close()
        await until(lambda: ready(pool, peer) == 0)
        pool.warm(peer.endpoint)
        await until(lambda: ready(pool, peer) == 2)
        await until(lambda: len(peer.writers) >= 4)  # it may accept them later
        assert len(peer.writers) == 4

    in_warm_pool(scenario)
