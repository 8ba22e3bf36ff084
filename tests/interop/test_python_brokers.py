"""Stock Kafka's command-line clients, and stock brokers, beside brokers of this software."""

import subprocess
from pathlib import Path

import pytest

from support import stock_kafka
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"


def tool(main_class: str, *arguments: str, given: str | None = None) -> str:
    """Output of a tool, which must succeed."""
    done = subprocess.run(
        stock_kafka.java(main_class, *arguments, heap_mb=256),
        input=given,
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_console_clients_and_tools_work_with_brokers_of_this_software(tmp_path: Path) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1) as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 2) as brokers,
    ):
        quorum.form()
        brokers.start()
        server = ("--bootstrap-server", brokers.bootstrap)
        made = ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "2")
        tool(TOPICS, *server, *made, "--config", "min.insync.replicas=2")
        described = tool(TOPICS, *server, "--describe", "--topic", "t")
        assert "ReplicationFactor: 2" in described
        assert "min.insync.replicas=2" in described
        lines = [f"line {number}" for number in range(100)]
        tool(PRODUCER, *server, "--topic", "t", given="\n".join(lines) + "\n")
        reading = ("--partition", "0", "--offset", "earliest", "--max-messages", "100")
        read = tool(CONSUMER, *server, "--topic", "t", *reading, "--timeout-ms", "30000")
        assert read.splitlines() == lines
        assert tool(GET_OFFSETS, *server, "--topic", "t").strip() == "t:0:100"
        for broker_id in brokers.nodes:
            segment = brokers.log_folder(broker_id, "t") / "00000000000000000000.log"
            dumped = tool(stock_kafka.DUMP_LOG, "--deep-iteration", "--files", str(segment))
            assert "isvalid: true" in dumped
            assert "lastOffset: 99" in dumped
        tool(TOPICS, *server, "--delete", "--topic", "t")
        assert tool(TOPICS, *server, "--list").strip() == ""


@pytest.mark.parametrize("leader", [101, 201])
def test_a_stock_broker_and_one_of_this_software_replicate_from_each_other(
    tmp_path: Path, leader: int
) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1) as quorum,
        PythonBrokers(quorum, tmp_path / "python", 1) as ours,
        JavaBrokers.on(quorum, tmp_path / "java", 1) as stock,
    ):
        quorum.form()
        stock.start()
        ours.start()
        wait_until(lambda: _is_live(ours, 101), "the stock broker is live", 90)
        follower = 302 - leader
        server = ("--bootstrap-server", ours.bootstrap)
        made = ("--create", "--topic", "t", "--replica-assignment", f"{leader}:{follower}")
        tool(TOPICS, *server, *made, "--config", "min.insync.replicas=2")
        lines = [f"line {number}" for number in range(200)]
        tool(PRODUCER, *server, "--topic", "t", given="\n".join(lines) + "\n")
        reading = ("--partition", "0", "--offset", "earliest", "--max-messages", "200")
        read = tool(CONSUMER, *server, "--topic", "t", *reading, "--timeout-ms", "30000")
        assert read.splitlines() == lines
        assert ours.isr("t", 201) == {101, 201}
        segment = Path("t-0") / "00000000000000000000.log"
        theirs = (stock.brokers[101].root / "data" / segment).read_bytes()
        assert theirs == (ours.nodes[201].root / "logs" / segment).read_bytes()


def _is_live(ours: PythonBrokers, broker_id: int) -> bool:
    found = ours.metadata(201)
    return found is not None and broker_id in {each.node_id for each in found.brokers}
