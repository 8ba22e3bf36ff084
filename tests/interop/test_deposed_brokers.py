"""Case 3 of the replication design V3 with a stock broker and one of this software, each in both places."""

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.protocol import broker_apis
from quorum_node.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.records.batches import Record, encode_batch
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]
STOCK, OURS = 101, 201
SEGMENT = "00000000000000000000.log"


def produce(port: int, topic_id: UUID, value: bytes, acks: int = -1) -> int:
    """The error code for one record."""
    data = encode_batch(
        base_offset=0, leader_epoch=-1, timestamp_ms=1_700_000_000_000, records=[Record(None, value)]
    )  # fmt: skip
    partition = PartitionProduceData(index=0, records=data)
    topics = (TopicProduceData(topic_id=topic_id, partition_data=(partition,)),)
    body = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)
    api = broker_apis.PRODUCE
    answer = ask(("127.0.0.1", port), api, api.max_version, body, 60.0)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0].error_code


def live(ours: PythonBrokers) -> set[int]:
    """Brokers that are not fenced."""
    found = ours.metadata(OURS)
    return set() if found is None else {each.node_id for each in found.brokers}


@pytest.mark.requirement("KV3-11")
@pytest.mark.parametrize("deposed", [STOCK, OURS])
def test_paused_and_deposed_leader_commits_nothing(tmp_path: Path, deposed: int) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="4000") as quorum,
        PythonBrokers(quorum, tmp_path / "python", 1) as ours,
        JavaBrokers.on(quorum, tmp_path / "java", 1) as stock,
        ThreadPoolExecutor(2) as producers,
    ):
        quorum.form()
        stock.start()
        ours.start()
        wait_until(lambda: live(ours) == {OURS, STOCK}, "both are live", 90)
        other = STOCK + OURS - deposed
        topic = ours.create_topic_at(OURS, "t", [deposed, other], told=[OURS])
        ports = {STOCK: stock.brokers[STOCK].port, OURS: ours.nodes[OURS].port}
        processes = {STOCK: stock.brokers[STOCK].process, OURS: ours.nodes[OURS].process}
        process = processes[deposed]
        assert process is not None
        wait_until(lambda: produce(ports[deposed], topic, b"a") == 0, "it takes records", 60)
        wait_until(lambda: ours.isr("t", OURS) == {STOCK, OURS}, "both are in sync", 60)
        process.send_signal(signal.SIGSTOP)
        waiting = [
            producers.submit(produce, ports[deposed], topic, b"never", acks) for acks in (-1, 1)
        ]
        wait_until(lambda: produce(ports[other], topic, b"b") == 0, "the other one leads", 60)
        process.send_signal(signal.SIGCONT)
        assert waiting[0].result(70) != 0, "acknowledged by a leader that was deposed"
        waiting[1].result(70)
        wait_until(lambda: ours.isr("t", OURS) == {STOCK, OURS}, "it follows", 60)
        theirs = stock.brokers[STOCK].root / "data" / "t-0" / SEGMENT
        mine = ours.log_folder(OURS, "t") / SEGMENT
        wait_until(lambda: theirs.read_bytes() == mine.read_bytes(), "the logs are equal", 60)
        written = mine.read_bytes()
        assert written.count(b"b") > 0
        assert b"never" not in written
