"""CreateTopics requests directly to the active controller, in a closed loop of one client: the same frames for every system.

The frames are encoded before the measurement, and the answers are decoded after it.
"""

import socket
import time
from collections.abc import Iterator

from kafka_client import Address
from kafka_load import summary
from light_brokers import FIRST_BROKER_ID

from quorum_node.protocol.apis import CREATE_TOPICS
from quorum_node.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.frames import SIZE_BYTES, decode_response, encode_request

CREATE_VERSION = 7
REPLICAS = 3
PARTITIONS_A_TOPIC = 100
_TOPICS_A_REQUEST = 10
_MOST_A_SECOND = {1: 3_000, 100: 150}
"""Number of prepared requests, more than any system answers."""


def new_topics(names: list[str]) -> CreateTopicsRequest:
    """Topics with one partition; the controller places the replicas."""
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=REPLICAS) for name in names
    ]
    return CreateTopicsRequest(topics=tuple(topics), timeout_ms=30_000)


def frame(request: CreateTopicsRequest) -> bytes:
    """The encoded frame."""
    return encode_request(CREATE_TOPICS, CREATE_VERSION, 1, "bench", request)


def check_created(answer: bytes) -> int:
    """Number of created topics. Raises RuntimeError if one was not created."""
    response = decode_response(CREATE_TOPICS, CREATE_VERSION, answer)
    assert isinstance(response, CreateTopicsResponse)
    failed = [each for each in response.topics if each.error_code]
    if failed:
        raise RuntimeError(f"{len(failed)} topics were not created: {failed[0]}")
    return len(response.topics)


def create_for(
    address: Address, batch: int, seconds: float, warmup_seconds: float
) -> dict[str, object]:
    """Create topics for some seconds, `batch` per request; rates are topics per second."""
    count = int((seconds + warmup_seconds) * _MOST_A_SECOND[batch])
    requests = [
        frame(new_topics([f"b{batch}-{number}-{each}" for each in range(batch)]))
        for number in range(count)
    ]
    answers, latencies = [], []
    with socket.create_connection(address, 30.0) as connection:
        began = time.perf_counter()
        start, end = began + warmup_seconds, began + warmup_seconds + seconds
        now = began
        for request in requests:
            connection.sendall(request)
            answers.append(_received(connection))
            sent, now = now, time.perf_counter()
            if sent >= start:
                latencies.append(now - sent)
            if now >= end:
                break
        else:
            raise RuntimeError(f"{count} requests were not enough")
    for answer in answers:
        if check_created(answer) != batch:
            raise RuntimeError("an answer lacks topics")
    found = summary(latencies, sum(latencies))
    return {**found, "topics_per_second": len(latencies) * batch / sum(latencies)}


def assigned_topics(partitions: int, brokers: int) -> Iterator[CreateTopicsRequest]:
    """Topics of a hundred partitions, each with replicas on the first two brokers and on a third one.

    The first broker leads a third of them, the second one another third.
    """
    first, second = FIRST_BROKER_ID, FIRST_BROKER_ID + 1
    topics = []
    for number in range(partitions // PARTITIONS_A_TOPIC):
        assignments = []
        for index in range(PARTITIONS_A_TOPIC):
            other = second + 1 + (number * PARTITIONS_A_TOPIC + index) % (brokers - 2)
            replicas = ((first, second, other), (second, other, first), (other, first, second))
            assignments.append(
                CreatableReplicaAssignment(
                    partition_index=index, broker_ids=replicas[index % REPLICAS]
                )
            )
        topics.append(CreatableTopic(name=f"filled-{number}", assignments=tuple(assignments)))
    for begin in range(0, len(topics), _TOPICS_A_REQUEST):
        some = tuple(topics[begin : begin + _TOPICS_A_REQUEST])
        yield CreateTopicsRequest(topics=some, timeout_ms=60_000)


def _received(connection: socket.socket) -> bytes:
    data = bytearray()
    size = SIZE_BYTES
    while len(data) < size:
        more = connection.recv(1 << 20)
        if not more:
            raise ConnectionResetError("closed in the middle of an answer")
        data += more
        if size == SIZE_BYTES and len(data) >= SIZE_BYTES:
            size += int.from_bytes(data[:SIZE_BYTES], "big")
    return bytes(data[SIZE_BYTES:])
