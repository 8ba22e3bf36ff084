"""What several partitions send to one peer in one turn leaves as one request, over real sockets."""

import asyncio
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.protocol.frames import Request, encode_response
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import FailureReason
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.peers.pool import PeerPool
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import Answer
from support.peer_stand_in import Peer
from support.wire import join, split

PARTITIONS = 3
ME, PEER = ReplicaKey(1, UUID(int=1)), ReplicaKey(2, UUID(int=2))


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


def answer_to(partition: int, request: raft.Request) -> raft.Response:
    """Different for every partition and every request."""
    match request:
        case raft.VoteRequest():
            leader = raft.CurrentLeader(-1, request.candidate_epoch * 10 + partition)
            return raft.VoteResponse(RaftError.NONE, leader, request.pre_vote)
        case raft.FetchRequest():
            leader = raft.CurrentLeader(-1, partition)
            return raft.FetchResponse(RaftError.NONE, leader, request.fetch_offset)
        case raft.BeginQuorumEpochRequest():
            leader = raft.CurrentLeader(-1, request.leader_epoch * 10 + partition)
            return raft.BeginQuorumEpochResponse(RaftError.NONE, leader)
    raise AssertionError(request)


class AnsweringPeer:
    """Takes requests apart and answers each partition for itself.

    A fetch of a partition in `park` is not answered, and holds up its connection.
    """

    def __init__(self, park: frozenset[int] = frozenset()) -> None:
        self.requests: list[str] = []
        self.park = park
        self.asked = asyncio.Event()
        self._peer = Peer(self._answer)
        self.close = self._peer.close

    async def start(self) -> Endpoint:
        await self._peer.start()
        return self._peer.endpoint

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.requests.append(request.api.name)
        self.asked.set()
        assert request.body is not None
        parts = split(request.body)
        if any(key.number in self.park for key, _ in parts):
            await asyncio.Event().wait()
        answers: list[Answer] = [answer_to(key.number, each) for key, each in parts]
        body = join(request.body, answers, no_clock)
        writer.write(encode_response(request.api, request.version, request.correlation_id, body))


class Outcomes:
    """How the sends of one partition ended."""

    def __init__(self, changed: asyncio.Event) -> None:
        self.ended: dict[int, object] = {}
        self._changed = changed

    def response_received(self, correlation: int, response: object) -> None:
        self._end(correlation, response)

    def request_failed(self, correlation: int, reason: FailureReason) -> None:
        self._end(correlation, reason)

    def _end(self, correlation: int, outcome: object) -> None:
        assert correlation not in self.ended, "a send ends once"
        self.ended[correlation] = outcome
        self._changed.set()


class Node:
    """A pool and the partitions behind it."""

    def __init__(self, partitions: int = PARTITIONS) -> None:
        self.metrics = Metrics()
        self.pool = PeerPool(
            "test",
            self.metrics,
            partitions=partitions,
            reconnect_backoff_ms=1,
            on_malformed=lambda peer, text: None,
        )
        self.changed = asyncio.Event()
        self.outcomes = [Outcomes(self.changed) for _ in range(partitions)]
        for number, each in enumerate(self.outcomes):
            self.pool.attach(number, each)

    async def until_ended(self, sends: int) -> None:
        async with asyncio.timeout(10):
            while sum(len(each.ended) for each in self.outcomes) < sends:
                self.changed.clear()
                await self.changed.wait()


def vote(epoch: int = 5, *, pre: bool = True) -> raft.VoteRequest:
    return raft.VoteRequest("c", ME, epoch, 4, 30, PEER, pre)


def fetch(offset: int) -> raft.FetchRequest:
    return raft.FetchRequest("c", ME, 5, offset, 4)


@pytest.mark.requirement("K595-31")
async def test_one_request_for_all_partitions_gives_each_its_response() -> None:
    peer, node = AnsweringPeer(), Node()
    endpoint = await peer.start()
    for number in range(PARTITIONS):
        node.pool.send(number, 7, endpoint, fetch(100 + number), 5000)
        node.pool.send(number, 8, endpoint, vote(number), 5000)
    assert node.pool.in_flight > 0, "a process that ends waits for what is still gathered"
    await node.until_ended(2 * PARTITIONS)
    node.pool.close()
    peer.close()
    for number, outcomes in enumerate(node.outcomes):
        assert outcomes.ended == {
            7: answer_to(number, fetch(100 + number)),
            8: answer_to(number, vote(number)),
        }
    assert sorted(peer.requests) == ["Fetch", "Vote"]
    counts = node.metrics.labelled
    assert counts["peer_requests"] == {"Fetch": 1, "Vote": 1}
    assert counts["peer_request_parts"] == {"Fetch": PARTITIONS, "Vote": PARTITIONS}


sends = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.one_of(
            st.builds(vote, st.integers(0, 3), pre=st.booleans()),
            st.builds(fetch, st.integers(0, 3)),
            st.builds(lambda epoch: raft.BeginQuorumEpochRequest("c", 1, epoch, PEER), st.integers(0, 3)),
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@pytest.mark.requirement("K595-31")
@settings(max_examples=40, deadline=None)
@given(sends)
def test_any_mixture_of_sends_gives_each_its_own_response(
    mixture: list[tuple[int, raft.OutboundRequest, bool]],
) -> None:
    """`True` ends the turn: what comes behind it is another request."""

    async def scenario() -> None:
        peer, node = AnsweringPeer(), Node()
        endpoint = await peer.start()
        for correlation, (number, request, turn_ends) in enumerate(mixture):
            node.pool.send(number, correlation, endpoint, request, 5000)
            if turn_ends:
                await asyncio.sleep(0)
        await node.until_ended(len(mixture))
        for correlation, (number, request, _) in enumerate(mixture):
            assert node.outcomes[number].ended[correlation] == answer_to(number, request)  # type: ignore[arg-type]
        assert len(peer.requests) <= len(mixture)
        node.pool.close()
        peer.close()

    asyncio.run(scenario())


@pytest.mark.requirement("K595-31")
async def test_parked_fetch_does_not_delay_the_fetch_of_another_partition() -> None:
    peer, node = AnsweringPeer(park=frozenset({0})), Node()
    endpoint = await peer.start()
    node.pool.send(0, 1, endpoint, fetch(10), 60_000)
    await asyncio.wait_for(peer.asked.wait(), 10)
    for correlation in range(20):
        node.pool.send(1, correlation, endpoint, fetch(correlation), 60_000)
        await node.until_ended(correlation + 1)
    assert node.outcomes[0].ended == {}
    peer.close()
    await node.until_ended(21)
    assert node.outcomes[0].ended == {1: FailureReason.CLOSED}
    node.pool.close()


async def test_refused_connection_is_reported_to_every_partition() -> None:
    peer, node = AnsweringPeer(), Node()
    endpoint = await peer.start()
    peer.close()
    for number in range(PARTITIONS):
        node.pool.send(number, 3, endpoint, vote(), 60_000)
    await node.until_ended(PARTITIONS)
    assert [each.ended for each in node.outcomes] == [{3: FailureReason.REFUSED}] * PARTITIONS
    node.pool.close()


async def test_exception_in_one_partition_callback_does_not_affect_others() -> None:
    """A callback may close the pool, as a process does that ends."""
    peer, node = AnsweringPeer(), Node()
    endpoint = await peer.start()

    class Closing(Outcomes):
        def response_received(self, correlation: int, response: object) -> None:
            super().response_received(correlation, response)
            node.pool.close()

    node.outcomes[0] = Closing(node.changed)
    node.pool.attach(0, node.outcomes[0])
    for number in range(PARTITIONS):
        node.pool.send(number, 1, endpoint, vote(), 60_000)
    await node.until_ended(1)
    await asyncio.sleep(0.02)
    assert [len(each.ended) for each in node.outcomes] == [1, 0, 0]
    peer.close()


async def test_single_partition_does_not_wait_for_the_end_of_the_turn() -> None:
    peer, node = AnsweringPeer(), Node(partitions=1)
    endpoint = await peer.start()
    node.pool.send(0, 1, endpoint, vote(), 5000)
    await node.until_ended(1)
    node.pool.send(0, 2, endpoint, vote(), 5000)
    assert node.metrics.labelled["peer_requests"] == {"Vote": 2}, "sent before the call returns"
    await node.until_ended(2)
    node.pool.close()
    peer.close()
