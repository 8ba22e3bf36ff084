"""Produce requests of a broker: the error code of each partition, and which of several faults is reported, as by a stock broker."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum_node.broker.events import MetadataChanged
from quorum_node.broker.produced_records import MOST_NAMED
from quorum_node.protocol.broker_apis import BROKER_APIS, PRODUCE
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.frames import SIZE_BYTES, decode_request, encode_request
from quorum_node.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from quorum_node.records.batches import HEADER_BYTES
from quorum_node.security.caller import Caller
from quorum_node.server.broker.produce_api import ProduceApi
from quorum_node.server.broker.topic_lookup import May, anything
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.broker.transaction_verification import TransactionVerification
from quorum_node.server.listener.port import InboundRequest
from quorum_node.storage.broker.codecs import ZSTD
from support.hosted_node import OneConnection
from support.hosted_replicas import ME, OTHER, HostedReplicas, answered
from support.produced_batches import produced

pytestmark = pytest.mark.virtual_time

IDS_SINCE = 13
GOOD = produced((0, b"k", b"v"), base_ms=-1)
TWO_RECORDS = produced((0, b"k", b"v"), (0, b"k", b"w"), base_ms=-1)
FLIPPED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])
TRANSACTIONAL = 1 << 4
"""The bit of a batch's attributes."""
OLD = GOOD[:16] + b"\1" + GOOD[17:]


def produce(
    hosted: HostedReplicas,
    name: str,
    data: bytes | None = GOOD,
    *,
    version: int = PRODUCE.max_version,
    acks: int = 1,
    partition: int = 0,
    may: May = anything,
    transactional_id: str | None = None,
    may_transact: bool = True,
) -> Any:
    """The result for the partition, which has to come at once."""
    part = PartitionProduceData(index=partition, records=data)
    wanted = topic_data(hosted, name, part, version=version)
    body = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=0, topic_data=(wanted,)
    )
    answer = exchanged(hosted, body, version, may, may_transact=may_transact)
    ((found,),) = [each.partition_responses for each in answer.responses]
    return found


def topic_data(
    hosted: HostedReplicas, name: str, *parts: PartitionProduceData, version: int
) -> TopicProduceData:
    """A topic of a request; one that does not exist has an unknown id."""
    topic = hosted.cluster.image.topics.named(name)
    unknown = None if name == "zeros" else UUID(int=99)
    topic_id = unknown if topic is None else topic.topic_id
    by_id = version >= IDS_SINCE
    return TopicProduceData(
        name="" if by_id else name, topic_id=topic_id if by_id else None, partition_data=parts
    )


def exchanged(
    hosted: HostedReplicas,
    body: ProduceRequest,
    version: int = PRODUCE.max_version,
    may: May = anything,
    connection: OneConnection | None = None,
    *,
    may_transact: bool = True,
) -> Any:
    """The answer, which has to come at once."""
    coordinators = TransactionCoordinators(
        ME, lambda: hosted.cluster.image, lambda broker_id: None, hosted.peers
    )
    verification = TransactionVerification(coordinators, hosted.peers)
    api = ProduceApi(hosted.replicas, lambda broker_id, listener: None, verification)
    try:
        return answered(
            lambda inbound, body: api.handle(inbound, body, may, may_transact=may_transact),
            PRODUCE,
            body,
            version,
            connection,
        )
    finally:
        api.close()


def code(hosted: HostedReplicas, name: str, data: bytes | None = GOOD, **options: Any) -> ErrorCode:
    found = produce(hosted, name, data, **options)
    assert bool(found.error_code) == (found.base_offset == -1)
    return ErrorCode(found.error_code)


async def test_unknown_topics_and_partitions(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    assert produce(hosted, "t").base_offset == 0
    assert code(hosted, "unknown") == ErrorCode.UNKNOWN_TOPIC_ID
    assert code(hosted, "zeros") == ErrorCode.UNKNOWN_TOPIC_ID
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(hosted, "unknown", version=12) == unknown
    assert code(hosted, "t", partition=7) == unknown
    assert code(hosted, "t", partition=-1) == unknown
    assert code(hosted, "unknown", FLIPPED, acks=2) == ErrorCode.UNKNOWN_TOPIC_ID
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert code(hosted, "t", may=lambda _: False) == denied
    assert code(hosted, "unknown", version=12, may=lambda _: False) == denied
    hosted.close()


@pytest.mark.parametrize("data", [None, b"", GOOD[:-1], GOOD + GOOD, OLD])
async def test_request_has_one_batch_of_the_current_format_per_partition(
    tmp_path: Path, data: bytes | None
) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    hosted.create_elsewhere("elsewhere")
    for name in ("t", "elsewhere"):
        assert code(hosted, name, data, acks=2) == ErrorCode.INVALID_RECORD
    assert replica.core.end_offset == 0
    hosted.close()


async def test_non_leader_rejects_before_parsing_the_batch(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("followed", (OTHER, ME))
    hosted.create_elsewhere("elsewhere")
    for name in ("followed", "elsewhere"):
        for data in (GOOD, FLIPPED):
            found = produce(hosted, name, data)
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert found.current_leader.leader_id == OTHER
    hosted.close()


async def test_too_small_isr_takes_precedence_over_batch_errors(
    tmp_path: Path,
) -> None:
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t", (ME, OTHER), **{"min.insync.replicas": "2"})
    leave_isr(hosted, replica)
    for data in (GOOD, FLIPPED):
        assert code(hosted, "t", data, acks=-1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert code(hosted, "t", FLIPPED, acks=1) == ErrorCode.CORRUPT_MESSAGE
    assert code(hosted, "t", GOOD, acks=1) == ErrorCode.NONE
    hosted.close()


@pytest.mark.parametrize("version", [12, 13])
async def test_only_the_last_batch_for_a_partition_is_appended(
    tmp_path: Path, version: int
) -> None:
    """A stock broker collects a request in a map. Otherwise a request would append the same partition tens of thousands of times."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    one, two = (PartitionProduceData(index=0, records=each) for each in (GOOD, TWO_RECORDS))
    unknown = PartitionProduceData(index=7, records=GOOD)
    topics = (
        topic_data(hosted, "t", one, unknown, one, version=version),
        topic_data(hosted, "t", two, version=version),
    )
    body = ProduceRequest(acks=1, timeout_ms=0, topic_data=topics)
    answer = exchanged(hosted, body, version)
    (topic,) = answer.responses
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [
        (0, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert replica.core.end_offset == 2
    assert replica.log.read(0, 2, 1)[HEADER_BYTES:] == TWO_RECORDS[HEADER_BYTES:]
    hosted.close()


async def test_request_about_one_partition_is_not_interrupted_after_its_batch(
    tmp_path: Path,
) -> None:
    """It would need another turn of the loop, after all others that wait, only to end."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t")
    part = PartitionProduceData(index=0, records=GOOD)
    wanted = topic_data(hosted, "t", part, version=PRODUCE.max_version)
    body = ProduceRequest(acks=1, timeout_ms=0, topic_data=(wanted,))
    ends = []

    class Connection(OneConnection):
        def in_pieces(self, work: Iterator[object]) -> None:
            ends.extend(replica.core.end_offset for _ in work)

    connection = Connection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT"))
    exchanged(hosted, body, connection=connection)
    assert set(ends) == {0}
    assert replica.core.end_offset == 1
    hosted.close()


class Frame(bytearray):
    """Bytes of a request; can be referred to weakly."""


async def test_records_are_not_kept_while_the_answer_is_awaited(tmp_path: Path) -> None:
    """A client that chooses a long timeout could keep 8 MiB of memory on each connection."""
    hosted = HostedReplicas(tmp_path)
    replica = hosted.create("t", (ME, OTHER))
    large = produced((0, b"k", bytes(512 << 10)), base_ms=-1)
    topic = TopicProduceData(
        topic_id=hosted.cluster.topic_id("t"),
        partition_data=(PartitionProduceData(index=0, records=large),),
    )
    body = ProduceRequest(acks=-1, timeout_ms=2**31 - 1, topic_data=(topic,))
    frame = Frame(encode_request(PRODUCE, PRODUCE.max_version, 1, "a client", body)[SIZE_BYTES:])
    sent = weakref.ref(frame)
    inbound = InboundRequest(
        OneConnection(Caller("User:ANONYMOUS", "127.0.0.1", "PLAINTEXT")),
        decode_request(memoryview(frame), BROKER_APIS),
        0.0,
    )
    del frame
    coordinators = TransactionCoordinators(
        ME, lambda: hosted.cluster.image, lambda broker_id: None, hosted.peers
    )
    verification = TransactionVerification(coordinators, hosted.peers)
    api = ProduceApi(hosted.replicas, lambda broker_id, listener: None, verification)
    handled: Any = inbound.request.body
    api.handle(inbound, handled)
    del handled
    assert replica.core.written_offset == 1
    gc.collect()
    assert inbound.encoded is None
    assert sent() is None
    api.close()
    hosted.close()


def leave_isr(hosted: HostedReplicas, replica: Any) -> None:
    """The other broker falls out of the ISR."""
    partition = hosted.cluster.partition("t")
    smaller = replace(partition, isr=(ME,), partition_epoch=partition.partition_epoch + 1)
    hosted.cluster.image = hosted.cluster.image.replay(smaller)
    hosted.replicas.apply(hosted.cluster.image)


@pytest.mark.parametrize("acks", [2, -2, 300])
async def test_invalid_acks_take_precedence_over_log_dependent_errors(
    tmp_path: Path, acks: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    hosted.create_elsewhere("elsewhere")
    hosted.create("__consumer_offsets")
    for name in ("t", "elsewhere", "__consumer_offsets"):
        for data in (GOOD, FLIPPED):
            assert code(hosted, name, data, acks=acks) == ErrorCode.INVALID_REQUIRED_ACKS
    assert code(hosted, "__consumer_offsets") == ErrorCode.INVALID_TOPIC_EXCEPTION
    hosted.close()


@pytest.mark.parametrize("may_transact", [True, False])
async def test_transactional_id_is_not_authorized_without_transactional_batches(
    tmp_path: Path, may_transact: bool
) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    found = produce(hosted, "t", transactional_id="x", may_transact=may_transact)
    assert found.error_code == ErrorCode.NONE
    begun = produced((0, b"k", b"v"), base_ms=-1, attributes=TRANSACTIONAL)
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    found = produce(hosted, "t", begun, transactional_id="x", may_transact=False)
    assert found.error_code == refused
    assert code(hosted, "t", begun) == refused
    hosted.close()


async def test_zstd_needs_version_7(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t")
    data = produced((0, b"k", b"v"), base_ms=-1, attributes=ZSTD)
    refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert code(hosted, "t", data, version=6, acks=2) == refused
    assert code(hosted, "t", data, version=7) == ErrorCode.NONE
    hosted.close()


@pytest.mark.parametrize(
    ("data", "acks", "error", "has_start"),
    [
        (GOOD[:7] + b"\1" + GOOD[8:], 1, ErrorCode.INVALID_RECORD, True),
        (produced((0, None, b"v"), base_ms=-1), 1, ErrorCode.INVALID_RECORD, True),
        (GOOD, -1, ErrorCode.NOT_ENOUGH_REPLICAS, True),
        (GOOD + GOOD, 1, ErrorCode.INVALID_RECORD, False),
        (FLIPPED, 1, ErrorCode.CORRUPT_MESSAGE, False),
        (produced((0, b"k", bytes(2000)), base_ms=-1), 1, ErrorCode.MESSAGE_TOO_LARGE, False),
        (GOOD, 2, ErrorCode.INVALID_REQUIRED_ACKS, False),
    ],
    ids=["base offset", "no key", "small ISR", "two batches", "checksum", "too large", "acks"],
)
async def test_refusal_has_the_start_of_the_log_where_a_stock_broker_looks_it_up(
    tmp_path: Path, data: bytes, acks: int, error: ErrorCode, has_start: bool
) -> None:
    hosted = HostedReplicas(tmp_path)
    configs = {
        "cleanup.policy": "compact,delete", "max.message.bytes": "1000", "min.insync.replicas": "2"
    }  # fmt: skip
    replica = hosted.create("t", (ME, OTHER), **configs)
    replica.take(
        MetadataChanged(replace(hosted.cluster.partition("t"), isr=(ME,), partition_epoch=9), {})
    )
    found = produce(hosted, "t", data, acks=acks)
    assert found.error_code == error
    assert found.log_start_offset == (0 if has_start else -1)
    hosted.close()


async def test_invalid_record_is_named(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", **{"cleanup.policy": "compact"})
    found = produce(hosted, "t", produced((0, b"k", b"v"), (0, None, b"v"), base_ms=-1))
    assert found.error_code == ErrorCode.INVALID_RECORD
    ((index, text),) = [(e.batch_index, e.batch_index_error_message) for e in found.record_errors]
    assert (index, found.error_message) == (1, text)
    hosted.close()


async def test_invalid_records_are_named_up_to_a_limit(tmp_path: Path) -> None:
    """It is that of the whole answer: a request of 8 MiB can have tens of thousands of such batches."""
    hosted = HostedReplicas(tmp_path)
    hosted.create("t", (ME,), (ME,), **{"cleanup.policy": "compact"})
    several = produced(*[(0, None, b"")] * 600, base_ms=-1)
    parts = [PartitionProduceData(index=each, records=several) for each in (0, 1)]
    version = PRODUCE.max_version
    wanted = topic_data(hosted, "t", *parts, version=version)
    answer = exchanged(hosted, ProduceRequest(acks=1, timeout_ms=0, topic_data=(wanted,)))
    found = answer.responses[0].partition_responses
    assert {each.error_code for each in found} == {ErrorCode.INVALID_RECORD}
    assert [len(each.record_errors) for each in found] == [600, MOST_NAMED - 600]
    hosted.close()
