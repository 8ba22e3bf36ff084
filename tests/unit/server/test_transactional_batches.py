"""Pipelined batches of a transaction: each one is judged after the one before, as on a stock broker, which handles the requests of a connection one after the other.

A producer regards an error as final if everything before the batch was acknowledged.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_node.broker.batch import Batch
from quorum_node.protocol.broker_apis import BROKER_APIS, PRODUCE
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, decode_response, encode_request
from quorum_node.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.security.caller import Caller
from quorum_node.server.broker.produce_api import ProduceApi
from quorum_node.server.listener.port import InboundRequest
from support.data_batches import data_batch
from support.hosted_node import OneConnection
from support.hosted_replicas import HostedReplicas

pytestmark = [pytest.mark.virtual_time, pytest.mark.parametrize("version", [11, 13])]
"""Below version 12 the producer adds the partition to its transaction, and the leader only verifies it."""

PRODUCER = 7


class Coordinator:
    """The transaction coordinator: the verifications without an answer, in the order in which they were requested."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[ErrorCode], None]] = []
        self.sequences: list[int] = []

    def verify(
        self,
        transactional_id: str,
        batch: Batch,
        topic: str,
        partition: int,
        verified: Callable[[ErrorCode], None],
        *,
        adds: bool,
        knows_abortable: bool,
    ) -> None:
        self.waiting.append(verified)
        self.sequences.append(batch.base_sequence)


class TransactionalProducer:
    """Sends requests without waiting for answers."""

    def __init__(self, root: Path, version: int) -> None:
        self.hosted = HostedReplicas(root)
        self.replica = self.hosted.create("t")
        self.coordinator = Coordinator()
        self._version = version
        self._api = ProduceApi(
            self.hosted.replicas,
            lambda broker_id, listener: None,
            self.coordinator,  # type: ignore[arg-type]
        )
        self._sent: list[InboundRequest] = []

    def send(self, sequence: int, producer_id: int = PRODUCER) -> None:
        data = data_batch(0, producer_id=producer_id, sequence=sequence, transactional=True).data
        assert isinstance(data, bytes)
        by_id = self._version >= 13
        topic = TopicProduceData(
            name="" if by_id else "t",
            topic_id=self.replica.key.topic_id if by_id else None,
            partition_data=(PartitionProduceData(index=0, records=data),),
        )
        body = ProduceRequest(transactional_id="x", acks=-1, timeout_ms=9_000, topic_data=(topic,))
        buffer = bytearray(encode_request(PRODUCE, self._version, 1, "c", body)[SIZE_BYTES:])
        connection = OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
        inbound = InboundRequest(connection, decode_request(buffer, BROKER_APIS), 0.0)
        self._sent.append(inbound)
        self._api.handle(inbound, inbound.request.body)  # type: ignore[arg-type]
        buffer[:] = bytes(len(buffer))

    @property
    def answers(self) -> list[tuple[int, int] | None]:
        """(error code, offset) of each request; None without an answer."""
        found: list[tuple[int, int] | None] = []
        for each in self._sent:
            if each.encoded is None:
                found.append(None)
                continue
            answer = decode_response(PRODUCE, self._version, b"".join(each.encoded)[SIZE_BYTES:])
            assert isinstance(answer, ProduceResponse)
            part = answer.responses[0].partition_responses[0]
            found.append((part.error_code, part.base_offset))
        return found

    def close(self) -> None:
        self._api.close()
        self.hosted.close()


async def test_batch_does_not_overtake_one_that_waits_for_its_verification(
    tmp_path: Path, version: int
) -> None:
    producer = TransactionalProducer(tmp_path, version)
    producer.send(0)
    producer.send(1)
    producer.coordinator.waiting.pop(0)(ErrorCode.NONE)
    producer.send(2)
    while producer.coordinator.waiting:
        producer.coordinator.waiting.pop(0)(ErrorCode.NONE)
    assert producer.answers == [(0, 0), (0, 1), (0, 2)]
    producer.close()


async def test_answers_of_the_coordinator_may_overtake_each_other(
    tmp_path: Path, version: int
) -> None:
    producer = TransactionalProducer(tmp_path, version)
    for sequence in range(4):
        producer.send(sequence)
    while producer.coordinator.waiting:
        producer.coordinator.waiting.pop()(ErrorCode.NONE)
    assert producer.answers == [(0, 0), (0, 1), (0, 2), (0, 3)]
    producer.close()


async def test_batches_after_one_that_was_not_confirmed_are_judged_one_by_one(
    tmp_path: Path, version: int
) -> None:
    """The producer sends the refused ones again."""
    producer = TransactionalProducer(tmp_path, version)
    for sequence in range(3):
        producer.send(sequence)
    producer.coordinator.waiting.pop(0)(ErrorCode.CONCURRENT_TRANSACTIONS)
    while producer.coordinator.waiting:
        producer.coordinator.waiting.pop(0)(ErrorCode.NONE)
    late = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert producer.answers == [(ErrorCode.CONCURRENT_TRANSACTIONS, -1), late, late]
    for sequence in range(3):
        producer.send(sequence)
    while producer.coordinator.waiting:
        producer.coordinator.waiting.pop(0)(ErrorCode.NONE)
    assert producer.answers[3:] == [(0, 0), (0, 1), (0, 2)]
    producer.close()


async def test_producers_do_not_wait_for_each_other(tmp_path: Path, version: int) -> None:
    producer = TransactionalProducer(tmp_path, version)
    producer.send(0)
    producer.send(0, producer_id=8)
    producer.coordinator.waiting.pop()(ErrorCode.NONE)
    assert producer.answers == [None, (0, 0)]
    producer.coordinator.waiting.pop()(ErrorCode.NONE)
    assert producer.answers == [(0, 1), (0, 0)]
    producer.close()


async def test_thousands_of_waiting_batches_are_judged_without_recursion(
    tmp_path: Path, version: int
) -> None:
    producer = TransactionalProducer(tmp_path, version)
    for sequence in range(3_000):
        producer.send(sequence)
    assert len(producer.coordinator.waiting) == 1
    producer.coordinator.waiting.pop()(ErrorCode.NONE)
    deadline = time.monotonic() + 60
    while (
        None in producer.answers
    ):  # a turn of the loop validates some of them, a thread the others
        assert time.monotonic() < deadline
        await asyncio.sleep(0)
    assert producer.answers == [(0, offset) for offset in range(3_000)]
    producer.close()
