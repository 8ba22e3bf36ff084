"""Random logs are compacted by a stock broker and by ours: the same batches and records remain."""

import time
from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from crc32c import crc32c

from quorum_node.image.resource_types import TOPIC
from quorum_node.protocol import broker_apis
from quorum_node.protocol.configs import (
    INCREMENTAL_ALTER_CONFIGS,
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.protocol.write_txn_markers import (
    MarkedTopic,
    TransactionMarker,
    WriteTxnMarkersRequest,
)
from quorum_node.schema.primitives import encode_varint
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.codecs import GZIP, LZ4, NONE
from quorum_node.storage.broker.compacted_batch import HORIZON_FLAG
from quorum_node.storage.broker.stored_records import stored_records
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.produced_batches import produced
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

STOCK, OURS = 101, 201
LOGS, ROUNDS, BATCHES = 25, 3, 25
NEVER, ALWAYS = "1.0", "0.0"
"""Values of min.cleanable.dirty.ratio."""
DAY_MS = 86_400_000
RATIO = "min.cleanable.dirty.ratio"


class Remaining(NamedTuple):
    """A batch of a compacted log. Base timestamps may differ, and the times of markers are those of the broker."""

    base_offset: int
    last_offset_delta: int
    attributes: int
    newest_ms: int
    producer: tuple[int, int, int]
    records: tuple[tuple[int, bytes | None, bool, int], ...]


class BrokerPair:
    """A stock broker and ours on one controller, each the only replica of its copy of a topic."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._ours = ours
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        self._topic = ""
        self._ids: dict[int, UUID] = {}

    def ask(self, broker_id: int, api: Any, version: int, body: Any) -> Any:
        return ask(self._addresses[broker_id], api, version, body, 20)

    def begin(self, topic: str, **configs: str) -> None:
        """New copies of a topic; returns when both lead theirs."""
        self._topic = topic
        for each in (STOCK, OURS):
            name = f"{topic}-{each}"
            self._ids[each] = self._ours.create_topic_at(OURS, name, [each], [OURS], LOGS, **configs)  # fmt: skip
            for number in range(LOGS):
                wait_until(lambda at=(each, number): self._leads(*at), f"{each} leads", 60)  # type: ignore[misc]

    def _leads(self, broker_id: int, number: int) -> bool:
        return self._produce(broker_id, number, b"")[0] == ErrorCode.INVALID_RECORD

    def set_ratio(self, value: str) -> None:
        config = AlterableConfig(name=RATIO, config_operation=ConfigOperation.SET, value=value)
        body = IncrementalAlterConfigsRequest(
            resources=tuple(
                AlterConfigsResource(
                    resource_type=TOPIC, resource_name=f"{self._topic}-{each}", configs=(config,)
                )
                for each in (STOCK, OURS)
            ),
            validate_only=False,
        )
        answer = self.ask(OURS, INCREMENTAL_ALTER_CONFIGS, 1, body)
        assert not any(each.error_code for each in answer.responses), answer

    def produce(self, number: int, data: bytes) -> None:
        """To both copies, which give the same answer."""
        theirs, mine = (self._produce(each, number, data) for each in (STOCK, OURS))
        assert mine == theirs

    def _produce(self, broker_id: int, number: int, data: bytes) -> tuple[int, int]:
        part = PartitionProduceData(index=number, records=data)
        topic = TopicProduceData(topic_id=self._ids[broker_id], partition_data=(part,))
        body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(topic,))
        answer = self.ask(broker_id, broker_apis.PRODUCE, 13, body)
        each = answer.responses[0].partition_responses[0]
        return each.error_code, each.base_offset

    def mark(self, number: int, producer_id: int, *, commit: bool) -> None:
        """End a transaction that has no records."""
        for broker_id in (STOCK, OURS):
            topic = MarkedTopic(name=f"{self._topic}-{broker_id}", partition_indexes=(number,))
            marker = TransactionMarker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=commit,
                coordinator_epoch=0,
                topics=(topic,),
            )
            body = WriteTxnMarkersRequest(markers=(marker,))
            answer = self.ask(broker_id, broker_apis.WRITE_TXN_MARKERS, 1, body)
            assert not answer.markers[0].topics[0].partitions[0].error_code, answer

    def log(self, broker_id: int, number: int) -> list[Remaining]:
        """All batches of a copy."""
        found: list[Remaining] = []
        offset, before = 0, -1
        while offset != before:
            before = offset
            part = FetchPartition(
                partition=number, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            topic = FetchTopic(topic_id=self._ids[broker_id], partitions=(part,))
            body = FetchRequest(max_wait_ms=0, min_bytes=1, topics=(topic,))
            answer = self.ask(broker_id, broker_apis.DATA_FETCH, 18, body)
            each = answer.responses[0].partitions[0]
            assert not each.error_code, each
            data = bytes(each.records or b"")
            while len(data) > 12 and len(data) >= (size := 12 + int.from_bytes(data[8:12], "big")):
                found.append(remaining(data[:size]))
                offset = found[-1].base_offset + found[-1].last_offset_delta + 1
                data = data[size:]
        return found


def remaining(data: bytes) -> Remaining:
    batch = batch_at(data, 0, 0, len(data))
    records = stored_records(data) if batch.record_count else ()
    return Remaining(
        batch.base_offset,
        batch.last_offset_delta,
        batch.attributes,
        0 if batch.is_control else batch.max_timestamp_ms,
        (batch.producer_id, batch.producer_epoch, batch.base_sequence),
        tuple(
            (each.offset, each.key, each.has_value, 0 if batch.is_control else each.timestamp_ms)
            for each in records
        ),
    )


def content_of(records: list[tuple[int, bytes, bytes | None]]) -> bytes:
    """The bytes of records (timestamp delta, key, value); values may be null."""
    parts = []
    for index, (delta, key, value) in enumerate(records):
        body = b"\0" + encode_varint(delta) + encode_varint(index) + encode_varint(len(key)) + key
        body += encode_varint(-1) if value is None else encode_varint(len(value)) + value
        parts.append(encode_varint(len(body) + 1) + body + b"\0")
    return b"".join(parts)


class Writer:
    """The batches of one log."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._now_ms = int(time.time() * 1000) - 10_000_000
        self._sequences = {1: 0, 2: 0}

    def write(self, pair: BrokerPair, number: int) -> None:
        random = self._random
        for _ in range(BATCHES):
            self._now_ms += random.choice((1, 50, 400, 1500))
            if random.random() < 0.06:
                pair.mark(number, random.choice((1, 2)), commit=random.random() < 0.5)
            else:
                pair.produce(number, self._batch())
        # The last segment is never compacted: it begins here.
        self._now_ms += 5_000
        pair.produce(number, produced((0, b"last", b""), base_ms=self._now_ms))

    def _batch(self) -> bytes:
        random = self._random
        records: list[tuple[int, bytes, bytes | None]] = [
            (
                random.randrange(40),
                b"k%d" % random.randrange(8),
                None if random.random() < 0.25 else b"v" * random.randrange(20),
            )
            for _ in range(random.randrange(1, 4))
        ]
        data = bytearray(
            produced(
                base_ms=self._now_ms,
                max_ms=self._now_ms + max(each[0] for each in records),
                attributes=random.choice((NONE, NONE, GZIP, LZ4)),
                content=content_of(records),
                count=len(records),
            )
        )
        if random.random() < 0.6:
            producer = random.choice((1, 2))
            sequence = self._sequences[producer]
            self._sequences[producer] = sequence + len(records)
            data[43:57] = producer.to_bytes(8, "big") + bytes(2) + sequence.to_bytes(4, "big")
            data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        return bytes(data)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    root = tmp_path_factory.mktemp("compacted")
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1, log_cleaner_backoff_ms="200") as ours,
    ):
        quorum.form()
        cleaner = {
            "log_cleaner_enable": "true",
            "log_cleaner_backoff_ms": "200",
            "log_cleaner_dedupe_buffer_size": "8000000",
        }
        with JavaBrokers.on(quorum, root / "stock", 1, **cleaner) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            yield BrokerPair(ours, stock)


@pytest.mark.parametrize("delete_retention_ms", [DAY_MS, 1])
def test_the_same_records_remain(pair: BrokerPair, delete_retention_ms: int) -> None:
    """Compaction waits until all is written: what remains depends on what is known then."""
    pair.begin(
        f"t{delete_retention_ms}",
        cleanup_policy="compact",
        segment_ms="1000",
        delete_retention_ms=str(delete_retention_ms),
        min_cleanable_dirty_ratio=NEVER,
    )
    writers = [Writer(seed) for seed in range(LOGS)]
    has_horizon = False
    for _ in range(ROUNDS):
        pair.set_ratio(NEVER)
        for number, writer in enumerate(writers):
            writer.write(pair, number)
        before = sum(len(pair.log(OURS, number)) for number in range(LOGS))
        pair.set_ratio(ALWAYS)
        ours = settled(pair, before)
        has_horizon |= any(each.attributes & HORIZON_FLAG for log in ours for each in log)
    assert has_horizon, "tombstones are compared as well"


def settled(pair: BrokerPair, before: int) -> list[list[Remaining]]:
    """The logs of ours, when both brokers have the same and go on compacting nothing. `before`: number of batches in them."""
    seen: list[dict[int, list[list[Remaining]]]] = []

    def is_settled() -> bool:
        each = {at: [pair.log(at, number) for number in range(LOGS)] for at in (STOCK, OURS)}
        seen.append(each)
        is_shorter = sum(map(len, each[OURS])) < before
        return is_shorter and each[OURS] == each[STOCK] and seen[-4:] == [each] * 4

    wait_until(is_settled, "both have compacted, to the same records", 60)
    return seen[-1][OURS]
