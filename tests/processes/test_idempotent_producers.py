"""Idempotent producers over leader changes, clean stops and kill -9: a repeated batch is recognized by every later leader."""

import signal
import time
from pathlib import Path

import pytest

from quorum_node.protocol.errors import ErrorCode
from support.data_batches import data_batch
from support.local_quorum import wait_until
from support.python_brokers import PythonBrokers, running_brokers

pytestmark = pytest.mark.long

PRODUCER = 77


class Producer:
    """Sends numbered batches to the leader, whoever that is."""

    def __init__(self, brokers: PythonBrokers) -> None:
        self._brokers = brokers
        self._topic = brokers.create_topic("t", [201, 202])

    def send(self, sequence: int, leader: int) -> tuple[int, int]:
        """(error code, base offset)."""
        now_ms = time.time_ns() // 1_000_000
        data = data_batch(
            sequence, producer_id=PRODUCER, sequence=sequence, timestamp_ms=now_ms
        ).data
        assert isinstance(data, bytes)
        unplaced = bytes(8) + data[8:]
        answer = self._brokers.produce_bytes(leader, self._topic, unplaced)
        return answer.error_code, answer.base_offset

    def is_known(self, sequence: int, leader: int) -> bool:
        """Whether a batch that is in the log already gets its old offset again."""
        return self.send(sequence, leader) == (0, sequence)

    def values(self, leader: int) -> list[bytes]:
        return [each.strip(b".") for each in self._brokers.read_all(leader, self._topic)]


def test_repeated_batches_are_recognized_by_later_leaders_and_after_restarts(
    tmp_path: Path,
) -> None:
    of_controller = {"broker.session.timeout.ms": "6000"}
    with running_brokers(tmp_path, 2, of_controller=of_controller) as brokers:
        producer = Producer(brokers)

        def leads(broker_id: int) -> None:
            wait_until(lambda: brokers.leader("t", broker_id) == broker_id, "it leads", 60)

        def both_have_it(told_by: int) -> None:
            wait_until(lambda: brokers.isr("t", told_by) == {201, 202}, "both are in sync", 60)

        both_have_it(201)
        assert all(producer.is_known(number, 201) for number in range(7))
        assert all(producer.is_known(number, 201) for number in range(2, 7))
        brokers.nodes[201].signal(signal.SIGTERM)
        leads(202)
        assert all(producer.is_known(number, 202) for number in range(2, 7)), "a follower has all"
        gap = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert producer.send(8, 202) == gap
        assert producer.is_known(7, 202)
        assert brokers.nodes[201].wait_exit() == 0
        brokers.start()
        both_have_it(202)
        brokers.nodes[202].kill()
        leads(201)
        assert producer.is_known(7, 201), "what it fetched after a clean stop"
        assert producer.send(9, 201) == gap
        assert producer.is_known(8, 201)
        brokers.start()
        both_have_it(201)
        brokers.nodes[201].kill()
        leads(202)
        assert producer.is_known(8, 202), "what it fetched after a kill"
        assert producer.is_known(9, 202)
        brokers.nodes[202].kill()
        brokers.start()
        wait_until(lambda: brokers.leader("t", 202) == 202, "it leads again", 60)
        assert producer.is_known(9, 202), "after a kill of both"
        assert producer.send(11, 202) == gap
        everything = [b"%d" % number for number in range(10)]
        wait_until(lambda: producer.values(202) == everything, "each once", 60)
