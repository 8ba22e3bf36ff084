"""Transactions in partitions that a broker of this software leads, under a coordinator that is a stock broker."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from support import stock_kafka
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers, running_brokers
from support.stock_kafka import tool

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

PERF = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
SEGMENT = "00000000000000000000"


@contextmanager
def mixed(root: Path) -> Iterator[tuple[PythonBrokers, JavaBrokers]]:
    """A stock broker, which coordinates transactions, and one of ours, which leads the topic `t`."""
    with (
        LocalQuorum(root / "quorum", nodes=1, broker_session_timeout_ms="6000") as quorum,
        PythonBrokers(quorum, root / "python", 1) as ours,
        JavaBrokers.on(
            quorum,
            root / "java",
            1,
            broker_heartbeat_interval_ms="300",
            transaction_state_log_min_isr="1",
            transaction_state_log_replication_factor="1",
            # As the topic is made below: a stock broker takes the number once, from its configuration.
            offsets_topic_num_partitions="1",
            group_initial_rebalance_delay_ms="0",
        ) as stock,
    ):
        quorum.form()
        stock.start()
        ours.start()
        wait_until(lambda: is_live(ours, 101), "the stock broker is live", 90)
        # The stock broker creates __transaction_state, which the controller places on it alone.
        ours.create_topic_at(201, "__consumer_offsets", [101], [201], cleanup_policy="compact")
        ours.create_topic_at(201, "t", [201, 101], [201], min_insync_replicas="2")
        wait_until(lambda: ours.isr("t", 201) == {101, 201}, "both have it", 60)
        yield ours, stock


def is_live(ours: PythonBrokers, broker_id: int) -> bool:
    found = ours.metadata(201)
    return found is not None and broker_id in {each.node_id for each in found.brokers}


def read(bootstrap: str, isolation: str, wanted: int) -> list[bytes]:
    """So many messages, and any further ones within two seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reads-{isolation}",
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["t"])
        found: list[bytes] = []
        wait_until(
            lambda: found.extend(values(consumer, 0.5)) or len(found) >= wanted,
            f"{wanted} messages",
            60,
        )
        found.extend(values(consumer, 2))
        return found
    finally:
        consumer.close()


def values(consumer: Consumer, seconds: float) -> list[bytes]:
    return [each.value() or b"" for each in consumer.consume(1000, seconds) if each.error() is None]


def send(producer: Producer, prefix: str, count: int) -> list[bytes]:
    sent = [f"{prefix}-{number}".encode() for number in range(count)]
    refused: list[object] = []
    for value in sent:
        producer.produce(
            "t",
            value,
            partition=0,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )
    assert producer.flush(60) == 0
    assert not refused, refused[:3]
    return sent


def test_committed_and_aborted_transactions_are_distinguished_on_both_brokers(
    tmp_path: Path,
) -> None:
    with mixed(tmp_path) as (ours, stock):
        both = f"{ours.bootstrap},{stock.bootstrap}"
        producer = Producer(
            {"bootstrap.servers": both, "transactional.id": "x", "linger.ms": 5, "acks": "all"}
        )
        producer.init_transactions(60)
        committed: list[bytes] = []
        everything: list[bytes] = []
        for number in range(6):
            producer.begin_transaction()
            sent = send(producer, f"transaction-{number}", 20)
            everything += sent
            if number % 2:
                producer.abort_transaction(60)
            else:
                producer.commit_transaction(60)
                committed += sent
        # The last one is open: a consumer of committed records does not pass it.
        producer.begin_transaction()
        everything += send(producer, "open", 5)
        assert read(both, "read_committed", len(committed)) == committed
        assert read(both, "read_uncommitted", len(everything)) == everything
        producer.commit_transaction(60)
        committed += [f"open-{number}".encode() for number in range(5)]
        # A stock producer with partitions that the leader adds to its transactions (KIP-890).
        tool(
            PERF,
            "--bootstrap-server",
            both,
            "--topic",
            "t",
            "--num-records",
            "200",
            "--record-size",
            "20",
            "--throughput",
            "400",
            "--transactional-id",
            "java",
            "--transaction-duration-ms",
            "100",
        )
        assert len(read(both, "read_committed", len(committed) + 200)) == len(committed) + 200
        wait_until(lambda: ours.isr("t", 201) == {101, 201}, "both have it", 60)
        for suffix in (".log", ".txnindex"):
            mine = (ours.log_folder(201, "t") / f"{SEGMENT}{suffix}").read_bytes()
            theirs = (stock.brokers[101].root / "data" / "t-0" / f"{SEGMENT}{suffix}").read_bytes()
            assert mine == theirs, suffix
        dumped = tool(
            stock_kafka.DUMP_LOG,
            "--deep-iteration",
            "--files",
            str(ours.log_folder(201, "t") / f"{SEGMENT}.log"),
        )
        assert dumped.count("endTxnMarker: ABORT") == 3


def test_transaction_started_under_a_stock_leader_ends_under_a_python_leader(
    tmp_path: Path,
) -> None:
    """The leader changes while it is open: what was aborted stays aborted, and what follows is in order."""
    with mixed(tmp_path) as (ours, stock):
        both = f"{ours.bootstrap},{stock.bootstrap}"
        producer = Producer(
            {"bootstrap.servers": both, "transactional.id": "x", "linger.ms": 5, "acks": "all"}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        first = send(producer, "first", 10)
        producer.commit_transaction(60)
        producer.begin_transaction()
        send(producer, "aborted", 10)
        node = ours.nodes[201]
        node.kill()
        ours.start()
        wait_until(lambda: ours.leader("t", 201) is not None, "somebody leads", 60)
        wait_until(lambda: ours.isr("t", 201) == {101, 201}, "both have it", 90)
        producer.abort_transaction(60)
        producer.begin_transaction()
        last = send(producer, "last", 10)
        producer.commit_transaction(60)
        assert read(both, "read_committed", 20) == first + last


def described_producers(bootstrap: str, *broker: str) -> set[str]:
    """Rows of the tool's table; without `broker` those of the leader."""
    server = ("--bootstrap-server", bootstrap)
    requested = ("describe-producers", "--topic", "t", "--partition", "0", *broker)
    header, *rows = tool(TRANSACTIONS, *server, *requested).splitlines()
    assert "CurrentTransactionStartOffset" in header
    return {" ".join(row.split()) for row in rows if row.strip()}


def test_stock_tool_describes_the_same_producers_on_both_brokers(tmp_path: Path) -> None:
    with mixed(tmp_path) as (ours, stock):
        both = f"{ours.bootstrap},{stock.bootstrap}"

        def same() -> set[str]:
            wait_until(lambda: ours.isr("t", 201) == {101, 201}, "both have it", 60)
            theirs = described_producers(both, "--broker-id", "101")
            mine = described_producers(both, "--broker-id", "201")
            assert described_producers(both) == mine, "the leader is not ours"
            assert mine == theirs
            return mine

        plain = Producer({"bootstrap.servers": both, "enable.idempotence": True})
        send(plain, "plain", 20)
        (only,) = same()
        assert only.endswith(" None"), only
        producer = Producer({"bootstrap.servers": both, "transactional.id": "x", "acks": "all"})
        producer.init_transactions(60)
        producer.begin_transaction()
        send(producer, "open", 5)
        opened = same() - {only}
        assert [each.split()[-1] for each in opened] == ["20"], "the start offset is 20"
        producer.commit_transaction(60)
        ended = same() - {only}
        assert [each.split()[-1] for each in ended] == ["None"]
        assert [each.split()[2] for each in ended] != [each.split()[2] for each in opened]


def test_stock_tool_lists_and_describes_transactions_of_a_mixed_cluster(tmp_path: Path) -> None:
    """It asks every broker for its transactions, and the coordinator for each of them."""
    with mixed(tmp_path) as (ours, stock):
        both = ("--bootstrap-server", f"{ours.bootstrap},{stock.bootstrap}")
        assert rows_of(tool(TRANSACTIONS, *both, "list")) == []
        producer = Producer(
            {"bootstrap.servers": ours.bootstrap, "transactional.id": "x", "acks": "all"}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        send(producer, "open", 5)
        (listed,) = rows_of(tool(TRANSACTIONS, *both, "list"))
        assert (listed[0], listed[1], listed[3]) == ("x", "101", "Ongoing")
        (described,) = rows_of(tool(TRANSACTIONS, *both, "describe", "--transactional-id", "x"))
        assert described[0] == "101"
        assert "t-0" in described[-1]
        # Each partition of the topic is led by ours: the tool asks it for producers, and then the coordinator.
        hanging = ("find-hanging", "--topic", "t", "--max-transaction-timeout")
        assert rows_of(tool(TRANSACTIONS, *both, *hanging, "0")) == [], "the coordinator knows it"
        producer.commit_transaction(60)
        (ended,) = rows_of(tool(TRANSACTIONS, *both, "list"))
        assert ended[3] in ("CompleteCommit", "PrepareCommit")


def rows_of(table: str) -> list[list[str]]:
    """Cells of the tool's table, without its header."""
    return [line.split() for line in table.splitlines()[1:] if line.strip()]


def test_cluster_without_transaction_coordinator_lists_no_transactions(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 2) as brokers:
        assert rows_of(tool(TRANSACTIONS, "--bootstrap-server", brokers.bootstrap, "list")) == []


def test_cluster_without_transaction_coordinator_rejects_transactions_immediately(
    tmp_path: Path,
) -> None:
    with running_brokers(tmp_path, 2) as brokers:
        brokers.create_topic("t", [201, 202])
        done = subprocess.run(
            stock_kafka.java(
                PERF,
                "--bootstrap-server",
                brokers.bootstrap,
                "--topic",
                "t",
                "--num-records",
                "1",
                "--record-size",
                "20",
                "--throughput",
                "1",
                "--transactional-id",
                "java",
                heap_mb=256,
            ),
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert done.returncode != 0 or "records sent" not in done.stdout
        assert "no broker of this cluster coordinates transactions" in done.stdout + done.stderr
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "transactional.id": "x"})
        with pytest.raises(KafkaException):
            producer.init_transactions(10)
