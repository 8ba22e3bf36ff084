"""Brokers of this software, as processes on a quorum of this software, over Kafka's protocol."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.protocol import broker_apis
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.protocol.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.records.batches import Record, encode_batch, split_batches
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers, running_brokers


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonBrokers]:
    """One broker on one controller, for tests that leave both as they are."""
    root = tmp_path_factory.mktemp("one-broker")
    with running_brokers(root, 1) as made:
        yield made


def test_broker_stores_and_returns_records(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("one", [201])
    first = brokers.produce(201, topic, [b"a", b"b"])
    assert (first.error_code, first.base_offset) == (0, 0)
    second = brokers.produce(201, topic, [b"c"], acks=1)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert brokers.read_all(201, topic) == [b"a", b"b", b"c"]


def test_invalid_batches_and_unknown_topics_are_rejected_with_kafka_error_codes(
    brokers: PythonBrokers,
) -> None:
    topic = brokers.create_topic("refusals", [201], max_message_bytes="1000")
    good = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1, records=[Record(None, b"x" * 100)]
    )
    flipped = good[:-1] + bytes((good[-1] ^ 1,))
    large = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1, records=[Record(None, b"x" * 2000)]
    )
    for data, code in (
        (flipped, ErrorCode.CORRUPT_MESSAGE),
        (large, ErrorCode.MESSAGE_TOO_LARGE),
        (good + good, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
    ):
        assert brokers.produce_bytes(201, topic, data).error_code == code
    assert brokers.produce_bytes(201, topic, good, acks=2).error_code == (
        ErrorCode.INVALID_REQUIRED_ACKS
    )
    assert brokers.produce_bytes(201, fresh_uuid(), good).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert brokers.fetch(201, topic, 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert brokers.fetch(201, fresh_uuid(), 0).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert brokers.read_all(201, topic) == []


def test_producer_ids_are_unique_and_transactions_are_rejected_with_a_message(
    brokers: PythonBrokers,
) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

    def given() -> int | None:
        answer = brokers.ask(201, broker_apis.INIT_PRODUCER_ID, request)
        assert isinstance(answer, InitProducerIdResponse)
        assert answer.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return None if answer.error_code else answer.producer_id + 1

    ids = {wait_until(given, "a producer id", 10) for _ in range(3)}
    assert len(ids) == 3
    refused = brokers.ask(
        201,
        broker_apis.INIT_PRODUCER_ID,
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000),
    )
    assert isinstance(refused, InitProducerIdResponse)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    answer = brokers.ask(
        201,
        broker_apis.FIND_COORDINATOR,
        FindCoordinatorRequest(key_type=1, coordinator_keys=("t",)),
    )
    assert isinstance(answer, FindCoordinatorResponse)
    assert answer.coordinators[0].error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "transactions" in (answer.coordinators[0].error_message or "")


def test_list_offsets_by_timestamp_and_end(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("times", [201])
    for second in (1, 2, 3):
        data = encode_batch(
            base_offset=0,
            leader_epoch=-1,
            timestamp_ms=second * 1000,
            records=[Record(None, b"value")],
        )
        assert brokers.produce_bytes(201, topic, data).error_code == 0

    def offset(timestamp: int) -> tuple[int, int]:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        body = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name="times", partitions=(partition,)),)
        )
        answer = brokers.ask(201, broker_apis.LIST_OFFSETS, body)
        assert isinstance(answer, ListOffsetsResponse)
        found = answer.topics[0].partitions[0]
        assert not found.error_code
        return found.offset, found.timestamp

    assert offset(EARLIEST_TIMESTAMP) == (0, -1)
    assert offset(LATEST_TIMESTAMP) == (3, -1)
    assert offset(1500) == (1, 2000)
    assert offset(4000) == (-1, -1)
    assert offset(MAX_TIMESTAMP) == (2, 3000)


def test_fetch_waits_until_records_are_available(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("waiting", [201])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(brokers.fetch, 201, topic, 0, 0, 20_000)
        assert brokers.produce(201, topic, [b"now"]).error_code == 0
        found = waiting.result(20)
    batches, _ = split_batches(found.records or b"")
    assert [each.header.base_offset for each in batches] == [0]


@pytest.mark.requirement("KV3-09")
@pytest.mark.long
def test_three_brokers_replicate_and_lose_no_record_when_the_leader_is_killed(
    tmp_path: Path,
) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="6000") as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 3) as brokers,
    ):
        quorum.form()
        brokers.start()
        topic = brokers.create_topic("three", [201, 202, 203], min_insync_replicas="2")
        sent = []
        for number in range(20):
            value = b"%d" % number
            answer = brokers.produce(201, topic, [value])
            assert (answer.error_code, answer.base_offset) == (0, number), answer
            sent.append(value)
        brokers.nodes[201].kill()
        leader = wait_until(
            lambda: next(
                (found for found in [brokers.leader("three", 202)] if found in (202, 203)), None
            ),
            "another leader",
            30,
        )
        answer = brokers.produce(leader, topic, [b"later"])
        assert (answer.error_code, answer.base_offset) == (0, 20), answer
        sent.append(b"later")
        assert brokers.read_all(leader, topic) == sent
        brokers.nodes[201].start()
        wait_until(
            lambda: brokers.isr("three", leader) == {201, 202, 203},
            f"the killed broker is in the ISR again {brokers.nodes[201].log_text[-1500:]}",
            40,
        )
        segment = "00000000000000000000.log"
        copies = {
            (brokers.log_folder(each, "three") / segment).read_bytes() for each in brokers.nodes
        }
        assert len(copies) == 1, "replicas are equal to the byte"


@pytest.mark.requirement("KV3-07")
@pytest.mark.long
def test_broker_recovers_all_records_after_graceful_stop_and_kill(
    tmp_path: Path,
) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        topic = brokers.create_topic("kept", [201])
        gone = brokers.create_topic("gone", [201])
        assert brokers.produce(201, topic, [b"a"]).error_code == 0
        assert brokers.produce(201, gone, [b"b"]).error_code == 0
        node = brokers.nodes[201]
        node.signal(signal.SIGTERM)
        assert node.wait_exit() == ExitCode.OK
        assert (node.root / "logs" / ".kafka_cleanshutdown").exists()
        brokers.start()
        wait_until(lambda: brokers.leader("kept", 201) == 201, "it leads again", 60)
        # The high watermark follows the start of the leader.
        wait_until(lambda: brokers.read_all(201, topic) == [b"a"], "all is there", 60)
        assert brokers.produce(201, topic, [b"c"]).base_offset == 1
        node.kill()
        brokers.start()
        wait_until(lambda: brokers.leader("kept", 201) == 201, "it leads again", 60)
        wait_until(lambda: brokers.read_all(201, topic) == [b"a", b"c"], "all is there", 60)
        assert brokers.produce(201, topic, [b"d"]).base_offset == 2


def test_topic_ids_in_a_version_without_them_are_rejected_and_the_broker_continues(
    brokers: PythonBrokers,
) -> None:
    """A stock broker answers with INVALID_REQUEST and an empty name for each topic of the request."""
    topic_id = brokers.create_topic("by-id", [201])
    requested = (
        MetadataRequestTopic(name=None, topic_id=topic_id),
        MetadataRequestTopic(name="by-id"),
    )
    for version in (10, 11):
        body = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
        answer = brokers.ask(201, broker_apis.METADATA, body, version)
        assert isinstance(answer, MetadataResponse)
        assert [(each.error_code, each.name) for each in answer.topics] == [
            (ErrorCode.INVALID_REQUEST, ""),
            (ErrorCode.INVALID_REQUEST, "by-id"),
        ]
    answer = brokers.ask(201, broker_apis.METADATA, MetadataRequest(topics=requested[:1]), 12)
    assert isinstance(answer, MetadataResponse)
    assert [(each.error_code, each.name) for each in answer.topics] == [(0, "by-id")]


def test_failed_produce_with_acks_0_closes_the_connection(brokers: PythonBrokers) -> None:
    """The producer detects the failure, and refreshes its metadata."""
    topic_id = brokers.create_topic("no-answer", [201])
    with pytest.raises(ConnectionResetError):
        brokers.ask(201, broker_apis.PRODUCE, unanswered(fresh_uuid()))
    with pytest.raises(TimeoutError):
        brokers.ask(201, broker_apis.PRODUCE, unanswered(topic_id), timeout=1.0)
    wait_until(lambda: brokers.read_all(201, topic_id) == [b"kept"], "the other one is stored")


def unanswered(topic_id: UUID) -> ProduceRequest:
    """One record with acks=0."""
    data = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1, records=[Record(None, b"kept")]
    )
    partition = PartitionProduceData(index=0, records=data)
    topics = (TopicProduceData(topic_id=topic_id, partition_data=(partition,)),)
    return ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics)
