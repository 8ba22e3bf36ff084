"""Random histories of idempotent producers, markers, deletions and look-ups: a stock broker and ours give the same answers."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import pytest
from crc32c import crc32c

from quorum_node.protocol import broker_apis
from quorum_node.protocol.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from quorum_node.protocol.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from quorum_node.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.protocol.write_txn_markers import (
    MarkedTopic,
    TransactionMarker,
    WriteTxnMarkersRequest,
)
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.produced_batches import produced
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

STOCK, OURS = 101, 201
HISTORIES, STEPS = 40, 60
LONGEST_MS = 500
LAST_SEQUENCE = (1 << 31) - 1


class BrokerPair:
    """A stock broker and ours on one controller, each the only replica of its copy of a topic."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        self._brokers = ours, stock
        self.now_ms = int(time.time() * 1000) - 1_000_000
        self._topic = ""
        self._ids: dict[int, UUID] = {}

    def begin(self, topic: str) -> None:
        """New copies of a topic with a partition for each history."""
        self._topic = topic
        for each in (STOCK, OURS):
            self._ids[each] = self._brokers[0].create_topic_at(
                OURS, f"{topic}-{each}", [each], [OURS], HISTORIES
            )

    def restart(self, *, cleanly: bool) -> None:
        """Both brokers; returns when they lead their partitions in new leader epochs."""
        ours, stock = self._brokers
        before = {each: self._epochs(each) for each in (STOCK, OURS)}
        for broker in (ours.nodes[OURS], stock.brokers[STOCK]):
            if cleanly:
                broker.terminate()
            else:
                broker.kill()
        stock.start()
        ours.start()
        stock.wait_for([STOCK, OURS])
        for each in (STOCK, OURS):
            wait_until(lambda each=each: self._leads(each, before[each]), f"{each} leads", 60)  # type: ignore[misc]

    def _epochs(self, broker_id: int) -> list[int]:
        """Leader epochs of the partitions that the broker leads."""
        found = self._brokers[0].metadata(OURS, [f"{self._topic}-{broker_id}"])
        assert found is not None
        partitions = found.topics[0].partitions
        return [each.leader_epoch for each in partitions if each.leader_id == broker_id]

    def _leads(self, broker_id: int, before: list[int]) -> bool:
        epochs = self._epochs(broker_id)
        return len(epochs) == HISTORIES and all(
            epoch > earlier and not self.offset(broker_id, number, -1, 0, epoch)[0]
            for number, (epoch, earlier) in enumerate(zip(epochs, before, strict=True))
        )

    def ask(self, broker_id: int, api: Any, body: Any, version: int | None = None) -> Any:
        return ask(
            self._addresses[broker_id],
            api,
            api.max_version if version is None else version,
            body,
            20,
        )

    def produce(self, broker_id: int, number: int, data: bytes) -> tuple[int, ...]:
        part = PartitionProduceData(index=number, records=data)
        topic = TopicProduceData(topic_id=self._ids[broker_id], partition_data=(part,))
        body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,))
        found = self.ask(broker_id, broker_apis.PRODUCE, body)
        each = found.responses[0].partition_responses[0]
        return each.error_code, each.base_offset, each.log_start_offset

    def mark(self, broker_id: int, number: int, marker: dict[str, Any]) -> tuple[int, ...]:
        topic = MarkedTopic(name=f"{self._topic}-{broker_id}", partition_indexes=(number,))
        body = WriteTxnMarkersRequest(markers=(TransactionMarker(topics=(topic,), **marker),))
        found = self.ask(broker_id, broker_apis.WRITE_TXN_MARKERS, body)
        return (found.markers[0].topics[0].partitions[0].error_code,)

    def delete(self, broker_id: int, number: int, offset: int) -> tuple[int, ...]:
        part = DeleteRecordsPartition(partition_index=number, offset=offset)
        topic = DeleteRecordsTopic(name=f"{self._topic}-{broker_id}", partitions=(part,))
        body = DeleteRecordsRequest(topics=(topic,), timeout_ms=10_000)
        each = self.ask(broker_id, broker_apis.DELETE_RECORDS, body).topics[0].partitions[0]
        return each.error_code, each.low_watermark

    def offset(
        self, broker_id: int, number: int, timestamp: int, isolation: int, epoch: int = -1
    ) -> tuple[int, ...]:
        part = ListOffsetsPartition(
            partition_index=number, timestamp=timestamp, current_leader_epoch=epoch
        )
        topic = ListOffsetsTopic(name=f"{self._topic}-{broker_id}", partitions=(part,))
        body = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=(topic,))
        each = self.ask(broker_id, broker_apis.LIST_OFFSETS, body).topics[0].partitions[0]
        # Markers have the time of the broker.
        stamp = min(each.timestamp, self.now_ms + LONGEST_MS)
        return each.error_code, each.offset, stamp, each.leader_epoch

    def epoch_end(self, broker_id: int, number: int, epoch: int) -> tuple[int, ...]:
        part = OffsetForLeaderPartition(partition=number, leader_epoch=epoch)
        topic = OffsetForLeaderTopic(topic=f"{self._topic}-{broker_id}", partitions=(part,))
        body = OffsetForLeaderEpochRequest(topics=(topic,))
        found = self.ask(broker_id, broker_apis.OFFSET_FOR_LEADER_EPOCH, body)
        each = found.topics[0].partitions[0]
        return each.error_code, each.leader_epoch, each.end_offset

    def fetch(
        self, broker_id: int, number: int, offset: int, max_bytes: int, isolation: int
    ) -> tuple[Any, ...]:
        part = FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=max_bytes)
        topic = FetchTopic(topic_id=self._ids[broker_id], partitions=(part,))
        body = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, topics=(topic,))
        each = self.ask(broker_id, broker_apis.DATA_FETCH, body).responses[0].partitions[0]
        records = bytes(each.records or b"")
        return (
            each.error_code,
            each.high_watermark,
            each.last_stable_offset,
            each.log_start_offset,
            each.aborted_transactions,
            without_times_of_markers(records),
        )

    def producers(self, broker_id: int, number: int) -> tuple[Any, ...]:
        topic = DescribeProducersTopic(
            name=f"{self._topic}-{broker_id}", partition_indexes=(number,)
        )
        body = DescribeProducersRequest(topics=(topic,))
        each = self.ask(broker_id, broker_apis.DESCRIBE_PRODUCERS, body).topics[0].partitions[0]
        return each.error_code, sorted(
            (p.producer_id, p.producer_epoch, p.last_sequence, p.coordinator_epoch, p.current_txn_start_offset)
            for p in each.active_producers
        )  # fmt: skip


def without_times_of_markers(records: bytes) -> list[bytes]:
    """The batches; of markers, which the broker stamps with its time, without times and checksum."""
    found = []
    while len(records) >= 61:
        size = 12 + int.from_bytes(records[8:12], "big")
        if size > len(records):
            break  # a stock broker sends what fits of the last batch
        batch = bytearray(records[:size])
        if batch[22] & 0x20:
            batch[17:21] = bytes(4)
            batch[27:43] = bytes(16)
        found.append(bytes(batch))
        records = records[size:]
    return found


@dataclass
class History:
    """The next steps of one partition. `next`: producer → the next sequence; `sent`: batches of producers."""

    random: Random
    now_ms: int
    next: dict[tuple[int, int], int] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    end: int = 0
    is_deleted: bool = False

    def step(self) -> tuple[str, tuple[Any, ...]]:
        random = self.random
        kind = random.choices(
            ("produce", "again", "mark", "delete", "offset", "epoch_end", "fetch", "producers"),
            (12, 3, 2, 1, 3, 1, 3, 1),
        )[0]
        if kind == "again" and self.sent:
            return "produce", (random.choice(self.sent[-7:]),)
        if kind in ("produce", "again"):
            return "produce", (self._batch(),)
        if kind == "mark":
            return kind, (
                {
                    "producer_id": random.choice((1000, 1001, 1002)),
                    "producer_epoch": random.randrange(4),
                    "transaction_result": random.random() < 0.5,
                    "coordinator_epoch": random.randrange(3),
                    "transaction_version": random.choice((0, 0, 2)),
                },
            )
        around = random.randrange(-2, self.end + 3)
        if kind == "delete":
            return kind, (random.choice((-1, around, around // 2)),)
        if kind == "offset":
            stamp = self.now_ms + random.randrange(-10, 200)
            return kind, (
                # A stock broker also finds a deleted record with the largest timestamp.
                random.choice((-1, -2, -1 if self.is_deleted else -3, -4, -5, -6, 0, stamp, stamp)),
                random.randrange(2),
            )
        if kind == "epoch_end":
            return kind, (random.randrange(-1, 3),)
        if kind == "fetch":
            return kind, (around, random.choice((1, 100, 300, 1 << 20)), random.randrange(2))
        return kind, ()

    def _batch(self) -> bytes:
        random = self.random
        count = random.randrange(1, 4)
        records = [
            (random.randrange(0, 150), b"k", b"v" * random.randrange(30)) for _ in range(count)
        ]
        data = bytearray(produced(*records, base_ms=self.now_ms))
        if random.random() < 0.85:
            producer, epoch = random.choice((1000, 1000, 1001)), random.choice((0, 0, 0, 1, 2))
            key = producer, epoch
            if key not in self.next:
                self.next[key] = random.choice((0, 0, 0, 5, LAST_SEQUENCE - 2))
            sequence = self.next[key]
            if random.random() < 0.15:
                sequence = random.choice((sequence + 1, sequence - 1, 0, LAST_SEQUENCE))
            sequence &= LAST_SEQUENCE
            self.next[key] = (sequence + count) & LAST_SEQUENCE
            data[43:57] = (
                producer.to_bytes(8, "big") + epoch.to_bytes(2, "big") + sequence.to_bytes(4, "big")
            )
            data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
            self.sent.append(bytes(data))
        return bytes(data)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    root = tmp_path_factory.mktemp("histories")
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1) as ours,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, root / "stock", 1) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            yield BrokerPair(ours, stock)


def play(pair: BrokerPair, histories: list[History], steps: int, *kinds: str) -> None:
    """Some steps of each. `kinds`: of steps that are left out."""
    for number, history in enumerate(histories):
        told = []
        for _ in range(steps):
            name, values = history.step()
            if name in kinds:
                continue
            theirs, mine = (getattr(pair, name)(each, number, *values) for each in (STOCK, OURS))
            told.append(f"{name} {values} {theirs}")
            assert mine == theirs, "\n".join([*told[-12:], f"ours: {mine}"])
            if name == "delete" and not theirs[0]:
                history.is_deleted = True
            if name == "produce" and not theirs[0]:
                history.end = max(history.end, theirs[1] + 1)


def test_both_brokers_give_the_same_answers(pair: BrokerPair) -> None:
    pair.begin("once")
    play(pair, [History(Random(seed), pair.now_ms) for seed in range(HISTORIES)], 2 * STEPS)


@pytest.mark.parametrize("end", ["clean", "kill"])
def test_both_brokers_go_on_equally_after_a_restart(pair: BrokerPair, end: str) -> None:
    """A stock broker forgets the producers of a log without records, and after a kill which records were just deleted."""
    pair.begin(end)
    histories = [History(Random(seed), pair.now_ms) for seed in range(HISTORIES)]
    play(pair, histories, STEPS, "delete")
    pair.restart(cleanly=end == "clean")
    play(pair, histories, STEPS, "delete")
