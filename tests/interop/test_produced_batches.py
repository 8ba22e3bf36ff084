"""Batches of a producer, right and wrong: a stock broker and ours get the same bytes, answer with the same codes, and store the same."""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest
from crc32c import crc32c

from quorum_node.protocol import broker_apis
from quorum_node.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.records.batches import HEADER_BYTES, CorruptBatch, read_header
from quorum_node.records.record_walk import walk_records
from quorum_node.schema.primitives import MalformedRecord
from quorum_node.storage.broker.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, UnknownCodec
from quorum_node.storage.broker.stored_records import record_bytes
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.produced_batches import content_of, produced
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

STOCK, OURS = 101, 201
HOUR_MS = 3_600_000
SEED, DAMAGED = 5, 150
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup_policy": "compact"},
    "append-time": {"message_timestamp_type": "LogAppendTime"},
    "limited": {
        "message_timestamp_before_max_ms": "60000",
        "message_timestamp_after_max_ms": "60000",
    },
    "lz4": {"compression_type": "lz4"},
    "gzip": {"compression_type": "gzip", "compression_gzip_level": "9"},
    "zstd": {"compression_type": "zstd"},
    "snappy": {"compression_type": "snappy"},
    "uncompressed": {"compression_type": "uncompressed"},
    "small": {"max_message_bytes": "1000"},
    "segments": {"segment_bytes": "1048576", "max_message_bytes": "2000000"},
}


class Answer(NamedTuple):
    """`faults`: the indexes of records in the answer."""

    code: int
    has_append_time: bool
    faults: tuple[int, ...]


class BrokerPair:
    """A stock broker and one of ours on one controller, each the only replica of its copy of a topic."""

    def __init__(self, ours: PythonBrokers, stock: JavaBrokers) -> None:
        self._ours = ours
        self._addresses = {
            STOCK: ("127.0.0.1", stock.brokers[STOCK].port),
            OURS: ("127.0.0.1", ours.nodes[OURS].port),
        }
        self._ids: dict[tuple[str, int], UUID] = {}
        for topic, configs in TOPICS.items():
            for broker_id in (STOCK, OURS):
                name = f"{topic}-{broker_id}"
                made = ours.create_topic_at(OURS, name, [broker_id], [OURS], 1, **configs)
                self._ids[topic, broker_id] = made

    def topic(
        self, topic: str, broker_id: int, version: int, *parts: PartitionProduceData
    ) -> TopicProduceData:
        """The copy of a topic on this broker in a request."""
        topic_id = self._ids.get((topic, broker_id), UUID(int=99))
        return TopicProduceData(
            name=f"{topic}-{broker_id}" if version < 13 else "",
            topic_id=topic_id if version >= 13 else None,
            partition_data=parts,
        )

    def ask(self, broker_id: int, version: int, body: ProduceRequest) -> ProduceResponse:
        answer = ask(self._addresses[broker_id], broker_apis.PRODUCE, version, body, 20)
        assert isinstance(answer, ProduceResponse)
        return answer

    def produce(
        self,
        topic: str,
        broker_id: int,
        data: bytes,
        version: int,
        acks: int = -1,
        partition: int = 0,
    ) -> Answer:
        part = PartitionProduceData(index=partition, records=data)
        body = ProduceRequest(
            acks=acks,
            timeout_ms=10_000,
            topic_data=(self.topic(topic, broker_id, version, part),),
        )
        answer = self.ask(broker_id, version, body)
        found = answer.responses[0].partition_responses[0]
        faults = tuple(each.batch_index for each in found.record_errors)
        return Answer(found.error_code, found.log_append_time_ms >= 0, faults)

    def same(
        self,
        topic: str,
        data: bytes,
        version: int = 13,
        acks: int = -1,
        partition: int = 0,
    ) -> Answer:
        """The answer, which both give."""
        stock, ours = (
            self.produce(topic, each, data, version, acks, partition) for each in (STOCK, OURS)
        )
        assert ours.code == stock.code, (topic, stock, ours)
        assert ours.has_append_time == stock.has_append_time, (topic, stock, ours)
        assert ours.faults == stock.faults, (topic, stock, ours)
        return ours

    def stored(self, topic: str, broker_id: int) -> list[bytes]:
        """All batches of a copy."""
        log = self._logs[broker_id] / f"{topic}-{broker_id}-0" / f"{0:020}.log"
        data, found = log.read_bytes(), []
        while data:
            size = read_header(data).size_bytes
            found.append(data[:size])
            data = data[size:]
        return found

    _logs: dict[int, Path]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    root = tmp_path_factory.mktemp("produced")
    with (
        LocalQuorum(root / "quorum", 1) as quorum,
        PythonBrokers(quorum, root / "ours", 1) as ours,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, root / "stock", 1) as stock:
            stock.start()
            ours.start()
            stock.wait_for([STOCK, OURS])
            found = BrokerPair(ours, stock)
            found._logs = {
                STOCK: stock.brokers[STOCK].root / "data",
                OURS: ours.nodes[OURS].root / "logs",
            }
            for topic in TOPICS:
                wait_until(
                    lambda topic=topic: _is_ready(found, topic),  # type: ignore[misc]
                    f"{topic} is led by both",
                    30,
                )
            yield found


def _is_ready(pair: BrokerPair, topic: str) -> bool:
    """Whether both lead their copies: an invalid batch gets another code than before."""
    answers = [pair.produce(topic, each, b"", 13) for each in (STOCK, OURS)]
    return all(each.code == 87 for each in answers)


def now_ms() -> int:
    return int(time.time() * 1000)


def test_invalid_batches_get_the_error_codes_of_a_stock_broker(pair: BrokerPair) -> None:
    now = now_ms()
    good = content_of((0, b"k", b"a"), (0, b"k", b"b"))
    last = read_header(produced((0, b"k", b"a"), base_ms=now)).size_bytes - 1
    flipped = bytearray(produced((0, b"k", b"a"), base_ms=now))
    flipped[last] ^= 1
    wrong = [
        ("plain", bytes(flipped)),
        ("plain", produced((0, None, b"a"), (HOUR_MS * 2, None, b"b"), base_ms=now)),
        ("plain", produced((0, None, b"a"), base_ms=now, attributes=0x20)),
        ("plain", produced((0, None, b"a"), base_ms=now, attributes=0x10)),
        ("plain", produced((0, None, b"a"), base_ms=now + 2 * HOUR_MS, attributes=0x08)),
        ("plain", produced(base_ms=now, content=good + b"\0", count=2)),
        ("plain", produced(base_ms=now, content=good, count=3)),
        ("compacted", produced((0, b"k", b"a"), (0, None, b"b"), base_ms=now)),
        ("compacted", produced((0, b"k", b"a"), (0, None, b"b"), base_ms=now, attributes=LZ4)),
        ("append-time", produced((0, None, b"a"), base_ms=now, attributes=0x08)),
        ("limited", produced((0, None, b"a"), (-120_000, None, b"b"), base_ms=now)),
        ("limited", produced((120_000, None, b"a"), (0, None, b"b"), base_ms=now)),
        ("small", produced((0, None, b"a" * 2_000), base_ms=now)),
    ]  # fmt: skip
    answers = [pair.same(topic, data) for topic, data in wrong]
    assert all(answer.code for answer in answers), answers
    old = produced((0, None, b"a"), base_ms=now, attributes=ZSTD)
    assert pair.same("plain", old, version=6).code == 76
    assert pair.same("plain", old, version=7).code == 0


def with_bytes(data: bytes, at: int, *values: int, checked: bool = True) -> bytes:
    """With other bytes at a position; `checked`: with a checksum that agrees."""
    changed = bytearray(data)
    changed[at : at + len(values)] = bytes(values)
    if checked:
        changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def test_each_invalid_batch_gets_the_error_code_of_a_stock_broker(pair: BrokerPair) -> None:
    """One after the other, so that an error code which both return for another reason does not hide a difference."""
    now = now_ms()
    good = produced((0, b"k", b"a"), (0, b"k", b"b"), base_ms=now)
    large = produced((0, b"k", bytes(1_200_000)), base_ms=now)
    late = produced((2 * HOUR_MS, b"k", bytes(1_200_000)), base_ms=now)
    wrong: dict[str, tuple[str, bytes, int]] = {
        "no batch": ("plain", b"", 87),
        "a part of a batch": ("plain", good[:-1], 87),
        "two batches": ("plain", good + good, 87),
        "a base offset": ("plain", with_bytes(good, 7, 5), 87),
        "magic 0": ("plain", with_bytes(good, 16, 0), 87),
        "magic 1": ("plain", with_bytes(good, 16, 1), 87),
        "magic 3": ("plain", with_bytes(good, 16, 3), 2),
        "magic -1": ("plain", with_bytes(good, 16, 255), 2),
        "length 13": ("plain", with_bytes(good, 8, 0, 0, 0, 13), 2),
        "a length below the header's": ("plain", with_bytes(good, 8, 0, 0, 0, 20), 2),
        "a wrong checksum": ("plain", with_bytes(good, len(good) - 1, 1, checked=False), 2),
        "no record, last delta 1": ("plain", with_bytes(good, 57, 0, 0, 0, 0), 87),
        "no record, last delta -1": ("plain", produced(base_ms=now, content=b"", count=0), 87),
        "a negative number of records": ("plain", with_bytes(good, 57, 255, 255, 255, 255), 87),
        "a last delta that is too large": ("plain", with_bytes(good, 26, 2), 87),
        "a codec that does not exist": ("plain", with_bytes(good, 22, 5), -1),
        "a control batch": ("plain", with_bytes(good, 22, 0x20), 87),
        "a control batch of a transaction": ("plain", with_bytes(good, 22, 0x30), 53),
        "a negative sequence": ("plain", with_bytes(good, 43, *bytes(7), 9, 0, 0), 87),
        "a time that is too late": ("plain", produced((2 * HOUR_MS, None, b"a"), base_ms=now), 32),
        "larger than the topic allows": ("small", produced((0, None, bytes(2_000)), base_ms=now), 10),
        "larger than a segment": ("segments", large, 18),
        "larger than a segment, and too late": ("segments", late, 32),
    }  # fmt: skip
    for codec in (GZIP, SNAPPY, LZ4, ZSTD):
        content = content_of((0, b"k", b"a"), (0, b"k", b"b"))
        at = len(content) // 2 + 3
        assert content[at] == 2, "the offset delta of the second record"
        swapped = produced(
            base_ms=now, content=with_delta(content, at, 0), count=2, attributes=codec
        )
        wrong[f"inner offsets, codec {codec}"] = "plain", swapped, -1
        mixed = produced(base_ms=now, content=content + content, count=3, attributes=codec)
        wrong[f"more records than announced, codec {codec}"] = "plain", mixed, 87
    for name, (topic, data, code) in wrong.items():
        assert (name, pair.same(topic, data).code) == (name, code)


def with_delta(content: bytes, at: int, delta: int) -> bytes:
    return content[:at] + bytes([delta]) + content[at + 1 :]


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize(("topic", "partition", "code"), [("unknown", 0, 0), ("plain", 7, 3)])
def test_unknown_topics_and_partitions_get_a_stock_brokers_code(
    pair: BrokerPair, version: int, topic: str, partition: int, code: int
) -> None:
    data = produced((0, b"k", b"a"), base_ms=now_ms())
    for each in (data, with_bytes(data, 16, 1), b""):
        found = pair.same(topic, each, version, partition=partition)
        assert found.code == (code or (100 if version == 13 else 3))


def test_both_brokers_report_the_same_of_several_errors(pair: BrokerPair) -> None:
    now = now_ms()
    good = produced((0, b"k", b"a"), base_ms=now)
    flipped = with_bytes(good, len(good) - 1, 1, checked=False)
    assert pair.same("plain", good, acks=2).code == 21
    assert pair.same("plain", flipped, acks=2).code == 21
    assert pair.same("plain", b"", acks=2).code == 87
    assert pair.same("plain", with_bytes(good, 16, 3), acks=2).code == 2
    assert pair.same("plain", with_bytes(flipped, 22, 5, checked=False)).code == 2
    big = produced((0, None, bytes(2_000)), base_ms=now)
    assert pair.same("small", with_bytes(big, 22, 5, checked=False)).code == 10
    assert pair.same("small", with_bytes(big, 7, 1, checked=False)).code == 87
    unread = produced((0, None, b"a"), base_ms=now, attributes=ZSTD)
    assert pair.same("plain", unread, version=6, acks=2).code == 76


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_valid_batches_are_stored_as_by_a_stock_broker(pair: BrokerPair, codec: int) -> None:
    """Byte by byte where nothing is recompressed; else the same records in the same format."""
    now = now_ms()
    records = [(number, b"k%d" % number, b"some text " * 30) for number in range(5)]
    data = produced(*records, base_ms=now, attributes=codec)
    wrong_maximum = produced(*records, base_ms=now, max_ms=now - 5, attributes=codec)
    untimed = produced((0, b"k", b"v"), base_ms=-1, attributes=codec)
    for topic in TOPICS:
        if topic == "small":
            continue
        for each in (data, wrong_maximum, untimed):
            assert pair.same(topic, each).code == 0
        stock, ours = (pair.stored(topic, broker_id)[-3:] for broker_id in (STOCK, OURS))
        for theirs, mine in zip(stock, ours, strict=True):
            if topic == "append-time":
                _assert_same_but_the_time(theirs, mine)
            elif read_header(theirs).attributes & 7 == codec:
                assert mine == theirs, topic
            else:
                _assert_same_form(theirs, mine)


def _assert_same_form(theirs: bytes, mine: bytes) -> None:
    a, b = read_header(theirs), read_header(mine)
    assert a._replace(size_bytes=0, crc=0) == b._replace(size_bytes=0, crc=0)
    assert record_bytes(theirs) == record_bytes(mine)


def _assert_same_but_the_time(theirs: bytes, mine: bytes) -> None:
    a, b = read_header(theirs), read_header(mine)
    assert a._replace(max_timestamp_ms=0, crc=0) == b._replace(max_timestamp_ms=0, crc=0)
    assert abs(a.max_timestamp_ms - b.max_timestamp_ms) < 60_000
    assert theirs[HEADER_BYTES:] == mine[HEADER_BYTES:]
    assert crc32c(mine[21:]) == b.crc


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("in_one_topic", [True, False])
def test_only_the_last_batch_for_a_partition_is_stored(
    pair: BrokerPair, version: int, in_one_topic: bool
) -> None:
    now = now_ms()
    one, two = (
        PartitionProduceData(index=0, records=produced((0, b"k", value), base_ms=now))
        for value in (b"1", b"2")
    )
    for broker_id in (STOCK, OURS):
        before = len(pair.stored("plain", broker_id))
        parts = ((one, two),) if in_one_topic else ((one,), (two,))
        topics = (pair.topic("plain", broker_id, version, *each) for each in parts)
        body = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=tuple(topics))
        answer = pair.ask(broker_id, version, body)
        ((found,),) = [each.partition_responses for each in answer.responses]
        assert (found.index, found.error_code) == (0, 0)
        (stored,) = pair.stored("plain", broker_id)[before:]
        assert record_bytes(stored).endswith(b"2\0")


def test_randomly_damaged_batches_get_the_same_responses(pair: BrokerPair) -> None:
    """The checksum agrees, so that the rules behind it are reached. Records that can't be decoded are always refused; a stock
    broker takes some that are compressed, which no consumer could read."""
    seeded, now = Random(SEED), now_ms()
    differences = []
    for number in range(DAMAGED):
        codec = seeded.choice((NONE, NONE, NONE, GZIP, SNAPPY, LZ4, ZSTD))
        records = [(k, seeded.choice((None, b"k")), b"v" * 9) for k in range(seeded.randint(1, 4))]
        data = bytearray(produced(*records, base_ms=now, attributes=codec))
        for _ in range(seeded.choice((1, 1, 1, 2, 3))):
            at = seeded.choice(range(len(data)))
            if 12 <= at < 16 or 17 <= at < 21 or 43 <= at < 57:  # epoch, checksum, producer
                continue
            data[at] = seeded.choice((0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1 << seeded.randrange(8)))
        data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
        topic = seeded.choice(("plain", "compacted", "append-time", "limited", "lz4"))
        stock, ours = (pair.produce(topic, each, bytes(data), 13) for each in (STOCK, OURS))
        is_safe = bool(ours.code) and not _is_readable(bytes(data))
        if stock.code != ours.code and not is_safe:
            differences.append(f"{number} {topic} stock {stock.code} ours {ours.code} {data.hex()}")
    assert not differences, "\n".join(differences)


def _is_readable(data: bytes) -> bool:
    try:
        walk_records(record_bytes(data), 0, read_header(data).record_count)
    except (CorruptBatch, UnknownCodec, MalformedRecord):
        return False
    return True
