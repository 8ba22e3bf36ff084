"""Fetch requests of a broker: who counts as a consumer, sessions, and when an answer waits; as on a stock broker."""

import asyncio
import gc
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from quorum_node.broker.events import BatchesFetched
from quorum_node.protocol.broker_apis import BROKER_APIS, DATA_FETCH
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, decode_response, encode_request
from quorum_node.security.caller import Caller
from quorum_node.server.broker.fetch_api import (
    MAX_WAITING_OF_CONNECTION,
    MOST_REFUSED_AT_ONCE,
    FetchApi,
)
from quorum_node.server.listener.port import InboundRequest
from support.data_batches import data_batch
from support.hosted_node import OneConnection
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered, position_of, produce

pytestmark = pytest.mark.virtual_time

DEBUGGING = -2
STATE_SINCE, IDS_SINCE = 15, 13
MANY = 4


def fetch(
    hosted: HostedReplicas,
    version: int = DATA_FETCH.max_version,
    replica_id: int = -1,
    *,
    body: FetchRequest | None = None,
    replica_epoch: int = -1,
    **partition: Any,
) -> Any:
    """The whole answer, which has to come at once. The topic is `t`."""
    request = asked(hosted, version, **partition) if body is None else body
    if version < STATE_SINCE:
        request = replace(request, replica_id=replica_id)
    else:
        state = ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
        request = replace(request, replica_state=state)
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    return answered(api.handle, DATA_FETCH, request, version)


def asked(hosted: HostedReplicas, version: int, **partition: Any) -> FetchRequest:
    given = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **partition}
    topic = FetchTopic(
        topic="" if version >= IDS_SINCE else "t",
        topic_id=hosted.cluster.topic_id("t") if version >= IDS_SINCE else None,
        partitions=(FetchPartition(**given),),
    )
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,))


def found(answer: Any) -> Any:
    assert answer.error_code == ErrorCode.NONE
    ((partition,),) = [topic.partitions for topic in answer.responses]
    return partition


def write(hosted: HostedReplicas, name: str, *replicas: int) -> None:
    replica = hosted.create(name, replicas)
    data = data_batch(0).data
    assert isinstance(data, bytes)
    assert produce(replica, data, acks=1)


@pytest.mark.parametrize("version", [4, 10, 14, 15, 18])
@pytest.mark.parametrize("replica_id", [-1, DEBUGGING])
async def test_debugging_consumer_gets_only_committed_records(
    tmp_path: Path, version: int, replica_id: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME, OTHER)
    hidden = found(fetch(hosted, version, replica_id))
    assert (hidden.error_code, hidden.high_watermark, hidden.records) == (0, 0, b"")
    behind = found(fetch(hosted, version, replica_id, fetch_offset=2))
    assert behind.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    hosted.close()


@pytest.mark.parametrize(
    ("version", "replica_id", "error"),
    [
        (10, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (10, DEBUGGING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (11, -1, ErrorCode.NONE),
        (18, DEBUGGING, ErrorCode.NONE),
        (18, 103, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
async def test_follower_serves_consumers_since_version_11(
    tmp_path: Path, version: int, replica_id: int, error: ErrorCode
) -> None:
    hosted = HostedReplicas(tmp_path)
    follower = hosted.create("t", (OTHER, ME))
    follower.take(BatchesFetched(position_of(follower), (data_batch(0),), 1, 0))
    answer = found(fetch(hosted, version, replica_id))
    assert (answer.error_code, bool(answer.records)) == (error, not error)
    hosted.close()


@pytest.mark.parametrize(
    ("epochs", "error"),
    [
        ({"current_leader_epoch": -7}, ErrorCode.NONE),
        ({"last_fetched_epoch": -7}, ErrorCode.NONE),
        ({"current_leader_epoch": 1}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"last_fetched_epoch": 3}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
@pytest.mark.parametrize("replica_id", [-1, OTHER])
async def test_negative_epoch_is_treated_as_none(
    tmp_path: Path, epochs: dict[str, int], error: ErrorCode, replica_id: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME, OTHER)
    assert found(fetch(hosted, replica_id=replica_id, **epochs)).error_code == error
    hosted.close()


async def test_follower_with_a_stale_broker_epoch_is_rejected_with_the_leader(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME, OTHER)
    epoch = hosted.cluster.epoch(OTHER)
    stale = found(fetch(hosted, replica_id=OTHER, replica_epoch=epoch - 1))
    assert stale.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (stale.current_leader.leader_id, stale.current_leader.leader_epoch) == (ME, 0)
    for replica_epoch in (-1, epoch):
        served = found(fetch(hosted, replica_id=OTHER, replica_epoch=replica_epoch))
        assert (served.error_code, bool(served.records)) == (0, True)
    assert found(fetch(hosted, 14, OTHER)).records, "older versions have no broker epoch"
    hosted.close()


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "error"),
    [
        (0, -1, ErrorCode.NONE),
        (0, 0, ErrorCode.NONE),
        (5, -1, ErrorCode.NONE),
        (5, 0, ErrorCode.NONE),
        (5, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (5, -2, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
async def test_only_requests_that_continue_a_fetch_session_are_rejected(
    tmp_path: Path, session_id: int, session_epoch: int, error: ErrorCode
) -> None:
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    body = asked(hosted, DATA_FETCH.max_version)
    answer = fetch(hosted, body=replace(body, session_id=session_id, session_epoch=session_epoch))
    assert (answer.error_code, answer.session_id) == (error, 0)
    assert bool(answer.responses) == (not error)
    hosted.close()


@pytest.mark.parametrize(
    "limits", [{"min_bytes": 0}, {"min_bytes": -1}, {"min_bytes": 1 << 20, "max_bytes": 0}]
)
async def test_fetch_with_min_bytes_0_does_not_wait(tmp_path: Path, limits: dict[str, int]) -> None:
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    body = replace(
        asked(hosted, DATA_FETCH.max_version, fetch_offset=1), max_wait_ms=60_000, **limits
    )
    before = asyncio.get_running_loop().time()
    assert found(fetch(hosted, body=body)).records == b""
    assert asyncio.get_running_loop().time() == before
    hosted.close()


async def test_topic_id_of_zeros_is_unknown(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    request = asked(hosted, IDS_SINCE)
    zeros = replace(request.topics[0], topic_id=None)
    answer = fetch(hosted, IDS_SINCE, body=replace(request, topics=(zeros,)))
    assert found(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    hosted.close()


@pytest.mark.parametrize("size", ["small", "repeated", "unknown fields"])
async def test_fetch_that_waits_keeps_only_what_it_uses(tmp_path: Path, size: str) -> None:
    """Otherwise a request of one partition could hold 8 MiB on each connection for a minute."""
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    body = asked(hosted, DATA_FETCH.max_version, fetch_offset=1)
    (topic,) = body.topics
    if size == "repeated":
        topic = replace(topic, partitions=10_000 * topic.partitions)
        body = replace(body, topics=(replace(topic), topic))
    elif size == "unknown fields":
        one = replace(topic.partitions[0], tagged_fields=((999, bytes(1 << 20)),))
        body = replace(body, topics=(replace(topic, partitions=(one,)),))
    body = replace(body, max_wait_ms=60_000)
    frame = encode_request(DATA_FETCH, DATA_FETCH.max_version, 1, "c", body)[SIZE_BYTES:]
    del body, topic
    connection = OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
    request = decode_request(frame, BROKER_APIS)
    inbound = InboundRequest(connection, request, 0.0, len(frame))
    del request
    before = bytes_held()
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    inbound.pass_to(lambda each: api.handle(each, request_body(each)))
    assert not inbound.answered, "it waits"
    assert bytes_held() - before < (20_000 if size == "small" else -500_000)
    await asyncio.sleep(60)
    encoded = b"".join(inbound.encoded or ())
    answer: Any = decode_response(DATA_FETCH, DATA_FETCH.max_version, encoded[SIZE_BYTES:])
    assert found(answer).error_code == ErrorCode.NONE
    hosted.close()


def request_body(inbound: InboundRequest) -> Any:
    return inbound.request.body


def bytes_held() -> int:
    """Of all requests for partitions in memory, with their unknown fields."""
    gc.collect()
    return sum(
        sys.getsizeof(each) + sum(len(data) for _, data in each.tagged_fields)
        for each in gc.get_objects()
        if type(each) is FetchPartition  # isinstance raises for a weak reference to what is gone
    )


async def test_few_fetches_of_a_connection_wait(tmp_path: Path) -> None:
    """Each of them is looked at whenever records are appended: 256 of each connection would hold up the broker."""
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    body = replace(asked(hosted, DATA_FETCH.max_version, fetch_offset=1), max_wait_ms=60_000)
    frame = encode_request(DATA_FETCH, DATA_FETCH.max_version, 1, "c", body)[SIZE_BYTES:]
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    connections = [OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "P")) for _ in range(2)]

    def ask(connection: OneConnection) -> InboundRequest:
        inbound = InboundRequest(connection, decode_request(frame, BROKER_APIS), 0.0)
        api.handle(inbound, request_body(inbound))
        return inbound

    sent = [ask(connection) for connection in connections for _ in range(10)]
    at_once = [bool(each.answered) for each in sent]
    few = MAX_WAITING_OF_CONNECTION
    assert at_once == 2 * (few * [False] + (10 - few) * [True])
    sent[0].abandon()
    assert not ask(connections[0]).answered, "another one may wait in its place"
    await asyncio.sleep(60)
    assert all(each.answered for each in sent[1:])
    assert not ask(connections[0]).answered
    assert len(api._waiting) == 1, "nothing is kept of the others"
    hosted.close()


@pytest.mark.parametrize("version", [IDS_SINCE - 1, DATA_FETCH.max_version])
async def test_partitions_that_do_not_exist_are_refused_one_by_one(
    tmp_path: Path, version: int
) -> None:
    """A client has not heard yet that a large topic was deleted: it gets the records of its other partitions, as from a stock broker.

    Many refusals take long, so they are made in pieces.
    """
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    by_id = version >= IDS_SINCE
    (topic,) = asked(hosted, version).topics
    (partition,) = topic.partitions
    numbers = (*range(1, MOST_REFUSED_AT_ONCE + 2), 0)
    several = replace(
        topic, partitions=tuple(replace(partition, partition=number) for number in numbers)
    )
    deleted = replace(topic, topic="" if by_id else "gone", topic_id=uuid4() if by_id else None)
    body = FetchRequest(max_wait_ms=500, min_bytes=1, topics=(deleted, several))
    connection = OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
    frame = encode_request(DATA_FETCH, version, 1, "c", body)[SIZE_BYTES:]
    inbound = InboundRequest(connection, decode_request(frame, BROKER_APIS), 0.0)
    FetchApi(hosted.replicas, lambda broker_id, listener: None).handle(
        inbound, request_body(inbound)
    )
    assert inbound.encoded is not None
    answer: Any = decode_response(DATA_FETCH, version, b"".join(inbound.encoded)[SIZE_BYTES:])
    assert answer.error_code == ErrorCode.NONE
    errors = {
        (topic.topic_id if by_id else topic.topic, each.partition_index): each.error_code
        for topic in answer.responses
        for each in topic.partitions
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = topic.topic_id if by_id else "t"
    gone = deleted.topic_id if by_id else "gone"
    assert errors == {
        (gone, 0): ErrorCode.UNKNOWN_TOPIC_ID if by_id else unknown,
        **{(name, number): unknown for number in numbers[:-1]},
        (name, 0): ErrorCode.NONE,
    }
    assert [
        each.partition_index
        for topic in answer.responses
        for each in topic.partitions
        if each.records
    ] == [0]
    assert connection.pieces > MOST_REFUSED_AT_ONCE
    hosted.close()


async def test_only_the_partition_that_moved_is_looked_at_again(tmp_path: Path) -> None:
    """A consumer waits for many bytes of many partitions (fetch.min.bytes). Else each batch of a producer would cost as much as all of them."""
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", *((ME,),) * MANY)
    await asyncio.sleep(1)
    replicas = [hosted.replica("t", number) for number in range(MANY)]
    (topic,) = asked(hosted, DATA_FETCH.max_version).topics
    (partition,) = topic.partitions
    data = data_batch(0).data
    assert isinstance(data, bytes)
    wanted = tuple(replace(partition, partition=number) for number in range(MANY))
    body = FetchRequest(
        max_wait_ms=30_000, min_bytes=2 * len(data), topics=(replace(topic, partitions=wanted),)
    )
    frame = encode_request(DATA_FETCH, DATA_FETCH.max_version, 1, "c", body)[SIZE_BYTES:]
    connection = OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
    inbound = InboundRequest(connection, decode_request(frame, BROKER_APIS), 0.0)
    api = FetchApi(hosted.replicas, lambda broker_id, listener: None)
    api.handle(inbound, request_body(inbound))

    def steps() -> list[int]:
        return [each._next_request_id for each in replicas]

    before = steps()
    assert produce(replicas[3], data)
    await asyncio.sleep(1)
    assert not inbound.answered
    assert [after - one for after, one in zip(steps()[:3], before[:3], strict=True)] == [0] * 3
    assert steps()[4:] == before[4:]
    assert produce(replicas[1], data)
    await asyncio.sleep(1)
    assert inbound.answered
    assert inbound.encoded is not None
    answer: Any = decode_response(
        DATA_FETCH, DATA_FETCH.max_version, b"".join(inbound.encoded)[SIZE_BYTES:]
    )
    (found_topic,) = answer.responses
    assert [each.partition_index for each in found_topic.partitions if each.records] == [1, 3]
    hosted.close()


@pytest.mark.parametrize("version", [4, 12, 13, 18])
async def test_unknown_isolation_level_is_refused(tmp_path: Path, version: int) -> None:
    """A client that wants another one must not get uncommitted records."""
    hosted = HostedReplicas(tmp_path)
    write(hosted, "t", ME)
    body = replace(asked(hosted, version), isolation_level=2)
    answer = fetch(hosted, version, body=body)
    if version >= 7:
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    codes = [each.error_code for topic in answer.responses for each in topic.partitions]
    assert codes == ([ErrorCode.UNKNOWN_SERVER_ERROR] if version < IDS_SINCE else [])
    hosted.close()
