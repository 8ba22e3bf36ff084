"""A request for several partitions: every replica gets its part, and no partition waits for another."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest

from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    ReplicaListener,
    ReplicaState,
)
from quorum_node.raft import messages as raft
from quorum_node.raft.errors import RaftError
from quorum_node.records.identity import ReplicaKey
from quorum_node.schema.schema import Message
from quorum_node.server.listener.port import InboundRequest
from quorum_node.server.requests.split_request import PartitionRequests
from quorum_node.server.wire.fetch import FETCH
from quorum_node.server.wire.instant import Instant
from quorum_node.server.wire.partitions import METADATA_TOPIC_ID, metadata_partition

VERSION = FETCH.api.max_version
LEADER = raft.CurrentLeader(1, 7)
NO_NEWS = raft.FetchResponse(RaftError.NONE, LEADER, 40)
NEWS = raft.FetchResponse(RaftError.NONE, LEADER, 41, records=b"batches")


class ParkingReplica:
    """Parks every request until it is completed, or expedited."""

    def __init__(self, at_once: raft.Response | None = None) -> None:
        self.requests: list[raft.Request] = []
        self.parked: dict[int, Callable[[raft.Response], None]] = {}
        self.abandoned: list[int] = []
        self.at_once = at_once
        self.has = NO_NEWS
        self._next_id = 1

    def request(self, request: raft.Request, done: Callable[[raft.Response], None]) -> int:
        self._next_id += 1
        self.requests.append(request)
        if self.at_once is not None:
            done(self.at_once)
        else:
            self.parked[self._next_id] = done
        return self._next_id

    def answer(self, response: raft.Response) -> None:
        parked, self.parked = self.parked, {}
        for done in parked.values():
            done(response)

    def hurry(self, request_id: int) -> None:
        done = self.parked.pop(request_id, None)
        if done is not None:
            done(self.has)

    def abandon(self, request_id: int) -> None:
        self.abandoned.append(request_id)
        self.parked.pop(request_id, None)


class RequestConnection:
    """The connection's side of a request."""

    def __init__(self, size_bytes: int = 200) -> None:
        self.size_bytes = size_bytes
        self.kept: Message | None = None
        self.on_abandoned: Callable[[], None] | None = None
        self.replies: list[Message] = []

    def keep_only(self, body: Message) -> None:
        self.kept = body

    def when_abandoned(self, abandoned: Callable[[], None]) -> None:
        self.on_abandoned = abandoned

    def reply(self, body: Message) -> None:
        self.on_abandoned = None
        self.replies.append(body)

    def records(self) -> list[tuple[int, int, bytes]]:
        """(partition, error, records) of the only answer."""
        (body,) = self.replies
        assert isinstance(body, FetchResponse)
        return [
            (part.partition_index, part.error_code, bytes(part.records or b""))
            for topic in body.responses
            for part in topic.partitions
        ]


def no_clock() -> Instant:
    raise AssertionError("only DescribeQuorum reports times")


class Node:
    """Some partitions that park, and all clients that request them. Made inside a loop."""

    def __init__(self, *replicas: ParkingReplica) -> None:
        self.replicas = replicas
        hosted = {metadata_partition(number): each for number, each in enumerate(replicas)}
        self.requests = PartitionRequests(hosted, no_clock)

    def fetch(self, *numbers: int, fetcher: int = 2, wait_ms: int = 500) -> RequestConnection:
        key = ReplicaKey(fetcher, UUID(int=fetcher))
        part = raft.FetchRequest("c", key, 7, 40, 7, wait_ms)
        return self.ask(FETCH.to_wire([(number, part) for number in numbers], VERSION))

    def ask(self, body: Message, size_bytes: int = 200) -> RequestConnection:
        connection = RequestConnection(size_bytes)
        self.requests.ask(cast(InboundRequest, cast(Any, connection)), body)
        return connection


async def turn() -> None:
    """Let the loop do what is due."""
    await asyncio.sleep(0)


@pytest.mark.requirement("K595-31")
async def test_new_data_of_one_partition_completes_the_whole_request() -> None:
    quiet, busy, other = ParkingReplica(), ParkingReplica(), ParkingReplica()
    connection = Node(quiet, busy, other).fetch(0, 1, 2)
    await turn()
    assert connection.replies == []
    busy.answer(NEWS)
    await turn()
    assert connection.records() == [(0, 0, b""), (1, 0, b"batches"), (2, 0, b"")]


async def test_appends_of_two_partitions_in_one_turn_are_sent_together() -> None:
    first, second = ParkingReplica(), ParkingReplica()
    connection = Node(first, second).fetch(0, 1)
    first.answer(NEWS)
    assert connection.replies == [], "the turn is not over"
    second.answer(NEWS)
    assert connection.records() == [(0, 0, b"batches"), (1, 0, b"batches")]


@pytest.mark.requirement("K595-31")
async def test_unknown_partition_gets_its_error_and_does_not_affect_others() -> None:
    connection = Node(ParkingReplica(NEWS), ParkingReplica()).fetch(7, 0, 1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert connection.records() == [(7, unknown, b""), (0, 0, b"batches"), (1, 0, b"")]


async def test_unknown_topic_gets_its_error_and_does_not_affect_others() -> None:
    node = Node(ParkingReplica(NEWS))
    body = FETCH.to_wire([(0, raft.FetchRequest("c", ReplicaKey(2), 7, 0, 0))], VERSION)
    assert isinstance(body, FetchRequest)
    strange = FetchTopic(topic_id=UUID(int=99), partitions=body.topics[0].partitions)
    connection = node.ask(
        FetchRequest(
            replica_state=body.replica_state,
            max_wait_ms=0,
            min_bytes=0,
            topics=(strange, *body.topics),
        )
    )
    assert connection.records() == [(0, ErrorCode.UNKNOWN_TOPIC_ID, b""), (0, 0, b"batches")]
    (answer,) = connection.replies
    assert isinstance(answer, FetchResponse)
    assert [topic.topic_id for topic in answer.responses] == [UUID(int=99), METADATA_TOPIC_ID]


@pytest.mark.parametrize("partitions", [1, 2])
async def test_parked_fetch_keeps_only_what_its_answer_depends_on(partitions: int) -> None:
    """A thousand connections may wait at the same time, with eight megabytes of unused fields each."""
    replicas = [ParkingReplica() for _ in range(partitions)]
    node, long = Node(*replicas), "x" * 100_000
    part = FetchPartition(
        partition=0,
        fetch_offset=40,
        partition_max_bytes=0,
        listeners=(ReplicaListener(name=long, host=long, port=1),),
    )
    body = FetchRequest(
        cluster_id=long,
        replica_state=ReplicaState(replica_id=2),
        max_wait_ms=500,
        min_bytes=0,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(part,)),),
        forgotten_topics_data=(ForgottenTopic(topic=long),),
        rack_id=long,
        tagged_fields=((999, long.encode()),),
    )
    unshared = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
    connection = node.ask(body, size_bytes=600_000)
    (parked,) = replicas[0].requests
    assert connection.kept is not None
    assert long not in repr(connection.kept)
    assert isinstance(parked, raft.FetchRequest)
    assert parked.endpoints == ()
    assert sys.getrefcount(body) == sys.getrefcount(unshared), "only this test has the request"
    replicas[0].answer(NEWS)
    assert connection.records() == [(0, 0, b"batches")]


async def test_repeated_partition_is_queried_once() -> None:
    connection = Node(ParkingReplica(NEWS)).fetch(*[0] * 1000)
    assert sum(len(records) for _, _, records in connection.records()) == len(NEWS.records)


async def test_single_partition_waits_for_its_data() -> None:
    replica, other = ParkingReplica(), ParkingReplica()
    connection = Node(replica, other).fetch(0)
    await turn()
    assert connection.replies == []
    replica.answer(NEWS)
    assert connection.records() == [(0, 0, b"batches")]


async def test_closed_connection_leaves_no_state() -> None:
    first, second = ParkingReplica(), ParkingReplica()
    connection = Node(first, second).fetch(0, 1)
    assert connection.on_abandoned is not None
    connection.on_abandoned()
    assert len(first.abandoned) == len(second.abandoned) == 1
    first.answer(NEWS)
    await turn()
    assert connection.replies == []


@pytest.mark.requirement("K595-31")
def test_diverged_fetches_complete_together() -> None:
    """Then the follower fetches both partitions in one request again."""

    async def scenario() -> None:
        first, second = ParkingReplica(), ParkingReplica()
        node = Node(first, second)
        early, late = node.fetch(0, wait_ms=20), node.fetch(1, wait_ms=20)
        # On a slow machine the fetches may begin any time after the test does.
        have_begun = node.requests.loop.time()
        async with asyncio.timeout(5):
            while node.requests.loop.time() < have_begun + 0.015:
                await turn()
        stranger = node.fetch(1, fetcher=3, wait_ms=20)
        fresh = node.fetch(1, wait_ms=60_000)
        first.answer(NO_NEWS)
        assert early.records() == [(0, 0, b"")]
        assert late.records() == [(1, 0, b"")]
        assert stranger.replies == fresh.replies == [], "another replica's, and one that just began"

    asyncio.run(scenario())


async def test_new_data_does_not_complete_other_requests() -> None:
    """The follower syncs the records before its next fetch: there is nothing to join."""
    first, second = ParkingReplica(), ParkingReplica()
    node = Node(first, second)
    busy, idle = node.fetch(0, wait_ms=0), node.fetch(1, wait_ms=0)
    first.answer(NEWS)
    assert busy.records() == [(0, 0, b"batches")]
    assert idle.replies == []


async def test_only_partition_of_a_node_is_queried_directly() -> None:
    replica = ParkingReplica()
    node = Node(replica)
    parked, unknown, left = node.fetch(0), node.fetch(1), node.fetch(0)
    assert unknown.records() == [(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, b"")]
    assert left.on_abandoned is not None
    left.on_abandoned()
    assert len(replica.abandoned) == 1
    replica.answer(NEWS)
    assert parked.records() == [(0, 0, b"batches")]
    assert left.replies == []
    at_once = Node(ParkingReplica(NEWS)).fetch(0)
    assert at_once.records() == [(0, 0, b"batches")]
    assert at_once.on_abandoned is None
