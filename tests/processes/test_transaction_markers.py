"""Markers of transactions and readers of committed records, over Kafka's protocol. The coordinator is the test."""

from pathlib import Path
from uuid import UUID

from quorum_node.protocol import broker_apis
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartition,
    FetchTopic,
)
from quorum_node.protocol.list_offsets import (
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from quorum_node.protocol.write_txn_markers import (
    MarkedTopic,
    TransactionMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from quorum_node.records.batches import Record, encode_batch, split_batches
from support.python_brokers import PythonBrokers, running_brokers

BROKER = 201


def write_marker(
    brokers: PythonBrokers,
    topic: str,
    producer_id: int,
    *,
    commit: bool,
    coordinator_epoch: int = 1,
) -> int:
    marker = TransactionMarker(
        producer_id=producer_id,
        producer_epoch=0,
        transaction_result=commit,
        topics=(MarkedTopic(name=topic, partition_indexes=(0,)),),
        coordinator_epoch=coordinator_epoch,
    )
    body = WriteTxnMarkersRequest(markers=(marker,))
    answer = brokers.ask(BROKER, broker_apis.WRITE_TXN_MARKERS, body)
    assert isinstance(answer, WriteTxnMarkersResponse)
    return answer.markers[0].topics[0].partitions[0].error_code


def committed(brokers: PythonBrokers, topic_id: UUID, offset: int) -> FetchResponsePartition:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    body = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=1,
        max_bytes=1 << 20,
        topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),),
    )
    answer = brokers.ask(BROKER, broker_apis.DATA_FETCH, body)
    assert isinstance(answer, FetchResponse)
    return answer.responses[0].partitions[0]


def latest(brokers: PythonBrokers, topic: str, isolation: int) -> int:
    requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST_TIMESTAMP)
    body = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=(ListOffsetsTopic(name=topic, partitions=(requested,)),),
    )
    answer = brokers.ask(BROKER, broker_apis.LIST_OFFSETS, body)
    assert isinstance(answer, ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


def test_markers_decide_transactions_and_are_rejected_without_a_coordinator(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        topic_id = brokers.create_topic("t", [BROKER])
        assert brokers.produce(BROKER, topic_id, [b"a", b"b"]).error_code == 0
        batch = encode_batch(
            base_offset=0,
            leader_epoch=-1,
            timestamp_ms=1,
            records=[Record(None, b"lost")],
            transaction=(9, 0),
        )
        # Without a transactional id nothing of a transaction gets in here.
        assert brokers.produce_bytes(BROKER, topic_id, batch).error_code == (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
        assert write_marker(brokers, "t", 9, commit=False, coordinator_epoch=5) == 0
        assert write_marker(brokers, "t", 9, commit=True, coordinator_epoch=4) == (
            ErrorCode.TRANSACTION_COORDINATOR_FENCED
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert write_marker(brokers, "no such topic", 9, commit=True) == unknown
        assert latest(brokers, "t", 0) == latest(brokers, "t", 1) == 3
        found = committed(brokers, topic_id, 2)
        assert (found.last_stable_offset, found.aborted_transactions) == (3, ())
        batches, _ = split_batches(found.records or b"")
        assert [each.header.is_control for each in batches] == [True]
