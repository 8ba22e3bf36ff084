"""Stock Kafka's command-line clients, and stock brokers, beside brokers of this software."""

import json
import signal
import subprocess
from pathlib import Path
from random import Random

import pytest

from support import stock_kafka
from support.broker_admin import alter_brokers
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers, running_brokers
from support.stock_kafka import tool

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

TOPICS = "org.apache.kafka.tools.TopicCommand"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
ELECTIONS = "org.apache.kafka.tools.LeaderElectionCommand"
PRODUCER_SPEED = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_SPEED = "org.apache.kafka.tools.ConsumerPerformance"


def test_console_clients_and_tools_work_with_python_brokers(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 2) as brokers:
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


def test_stock_tools_delete_records_and_describe_directories_and_quotas(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 2) as brokers:
        server = ("--bootstrap-server", brokers.bootstrap)
        brokers.create_topic("t", [201, 202])
        lines = "".join(f"line {number}\n" for number in range(100))
        tool(PRODUCER, *server, "--topic", "t", given=lines)
        offsets = tmp_path / "offsets.json"
        wanted = [{"topic": "t", "partition": 0, "offset": 40}]
        offsets.write_text(json.dumps({"version": 1, "partitions": wanted}))
        deleted = tool(DELETE_RECORDS, *server, "--offset-json-file", str(offsets))
        assert "low_watermark: 40" in deleted
        assert tool(GET_OFFSETS, *server, "--topic", "t", "--time", "-2").strip() == "t:0:40"
        output = tool(LOG_DIRS, *server, "--describe", "--topic-list", "t")
        found = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
        sizes = {
            each["broker"]: each["logDirs"][0]["partitions"][0]["size"] for each in found["brokers"]
        }
        assert set(sizes) == {201, 202}
        assert sizes[201] == sizes[202] > 0
        entity = ("--entity-type", "clients", "--entity-name", "c")
        tool(CONFIGS, *server, "--alter", *entity, "--add-config", "producer_byte_rate=1024")
        assert "producer_byte_rate=1024" in tool(CONFIGS, *server, "--describe", *entity)


def test_stock_tools_elect_preferred_leaders_and_measure(tmp_path: Path) -> None:
    properties = {"offsets_topic_replication_factor": "1", "offsets_topic_num_partitions": "1"}
    with running_brokers(tmp_path, 2, **properties) as brokers:
        server = ("--bootstrap-server", brokers.bootstrap)
        brokers.create_topic("t", [201, 202])
        brokers.nodes[201].signal(signal.SIGTERM)
        assert brokers.nodes[201].wait_exit() == 0
        wait_until(lambda: brokers.leader("t", 202) == 202, "the other one leads", 60)
        size = ("--record-size", "1000", "--throughput", "-1")
        sent = tool(PRODUCER_SPEED, *server, "--topic", "t", "--num-records", "5000", *size)
        assert "5000 records sent" in sent
        brokers.start()
        wait_until(lambda: brokers.isr("t", 202) == {201, 202}, "both have it", 60)
        wanted = ("--election-type", "preferred", "--topic", "t", "--partition", "0")
        elected = tool(ELECTIONS, *server, *wanted)
        assert "Successfully completed leader election" in elected
        wait_until(lambda: brokers.leader("t", 202) == 201, "the preferred one leads", 60)
        measured = tool(CONSUMER_SPEED, *server, "--topic", "t", "--num-records", "5000")
        assert measured.splitlines()[-1].split(", ")[4] == "5000"
        for time, offset in (("-1", 5000), ("-2", 0), ("-4", 0)):
            found = tool(GET_OFFSETS, *server, "--topic", "t", "--time", time)
            assert found.strip() == f"t:0:{offset}"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_stock_clients_and_tools_read_compacted_records(tmp_path: Path, codec: str) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        alter_brokers(brokers, {"log.cleaner.backoff.ms": "100"})
        server = ("--bootstrap-server", brokers.bootstrap)
        configs = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0"}
        brokers.create_topic("t", [201], segment_bytes="1048576", **configs)
        random = Random(7)
        # Half of each batch goes, and random text is not compressed away.
        text = "".join(
            f"{key}:{round_}-{random.randbytes(500).hex()}\n"
            for round_ in range(6)
            for key in [*range(200), *(f"{round_}.{n}" for n in range(200))]
        )
        producing = ("--topic", "t", "--compression-codec", codec)
        keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
        tool(PRODUCER, *server, *producing, *keyed, given=text)
        wanted = dict(line.split(":") for line in text.splitlines())
        wait_until(
            lambda: "compacted below offset" in brokers.nodes[201].log_text, "it is compacted", 60
        )
        reading = ("--partition", "0", "--offset", "earliest", "--timeout-ms", "5000")
        shown = (
            "--formatter-property",
            "print.key=true",
            "--formatter-property",
            "key.separator=:",
        )
        done = subprocess.run(
            stock_kafka.java(CONSUMER, *server, "--topic", "t", *reading, *shown, heap_mb=256),
            capture_output=True,
            text=True,
            timeout=90,
        )
        read = [line.split(":") for line in done.stdout.splitlines()]
        assert dict(read) == wanted
        assert len(read) < 2400, "the cleaner removed nothing"
        for segment in sorted(brokers.log_folder(201, "t").glob("*.log")):
            dumped = tool(stock_kafka.DUMP_LOG, "--deep-iteration", "--files", str(segment))
            assert "isvalid: false" not in dumped
            assert f"compresscodec: {codec}" in dumped


@pytest.mark.parametrize("leader", [101, 201])
def test_stock_and_python_brokers_replicate_from_each_other(tmp_path: Path, leader: int) -> None:
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
