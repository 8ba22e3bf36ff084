"""A stock Kafka cluster's own `__cluster_metadata`: archived live and from a disk, its state compared with what stock
clients say,
audited with the snapshots that its controllers wrote."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_pipeline.__main__ import main
from quorum_pipeline.files.log_directory import open_log
from support.java_brokers import JavaBrokers
from support.java_clients import Clients, PartitionState
from support.java_quorum import JavaQuorum
from support.local_quorum import wait_until
from support.pipeline_process import run_pipeline, table

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

SMALL = {
    "metadata_log_max_record_bytes_between_snapshots": "3000",
    "broker_session_timeout_ms": "3000",
}


@dataclass(frozen=True)
class ClusterView:
    """A cluster as stock clients see it."""

    topics: str
    partitions: dict[int, PartitionState]
    brokers: str
    retention_ms: str


def told_by(clients: Clients) -> ClusterView:
    return ClusterView(
        clients("topics"),
        clients.partitions("orders"),
        clients("brokers"),
        clients("config-of orders retention.ms"),
    )


@pytest.mark.requirement("SP-01", "SP-02", "SP-03", "SP-04")
def test_stock_cluster_is_archived_replayed_and_audited(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    with JavaQuorum(tmp_path / "quorum", 3, **SMALL) as quorum:
        quorum.start()
        ports = [each.port for each in quorum.controllers.values()]
        with JavaBrokers(tmp_path, quorum.cluster_id, ports, 2) as brokers:
            brokers.start()
            brokers.wait_for([101, 102])
            clients = brokers.clients
            clients("create orders 4 2")
            clients("create gone 2 1")
            done = run_pipeline("archive", "--bootstrap", quorum.bootstrap, "--to", archive)
            assert done.returncode == 0, done.stderr
            assert "offsets 0 to " in done.stdout
            clients("delete gone")
            clients("config orders retention.ms 3600000")
            quorum.leader.kill()
            brokers.brokers[102].kill()
            brokers.wait_for([101])
            wait_until(lambda: "102" not in isr_of(clients), "the dead broker left every ISR")
            reported = told_by(clients)
        logs = [each.log_directory for each in quorum.controllers.values()]
        for log in logs:
            wait_until(
                lambda log=log: any(each.end_offset for each in open_log(log).snapshots), "snapshot"
            )
        live = [each.log_directory for each in quorum.controllers.values() if each.is_running]
    done = run_pipeline("archive", "--log", live[0], "--to", archive)
    assert done.returncode == 0, done.stderr
    assert f"offsets 0 to {open_log(live[0]).end_offset()}, " in done.stdout
    assert " 0 in quarantine" in done.stdout
    tables = tmp_path / "tables"
    done = run_pipeline("state", "--archive", archive, "--output", tables)
    assert done.returncode == 0, done.stderr
    assert_state(tables, reported, quorum)
    assert_snapshots_are_read(spark, live[0])
    assert_audit(logs, tmp_path, capsys)


def isr_of(clients: Clients) -> str:
    return " ".join(str(each.isr) for each in clients.partitions("orders").values())


def assert_state(tables: Path, reported: ClusterView, quorum: JavaQuorum) -> None:
    names = [row["name"] for row in table(tables, "topics")]
    assert f"[{', '.join(sorted(names))}]" == reported.topics
    assert {
        row["partition_id"]: PartitionState(
            row["leader"], tuple(row["replicas"]), tuple(row["isr"])
        )
        for row in table(tables, "partitions")
        if row["topic"] == "orders"
    } == reported.partitions
    brokers = {row["broker_id"]: row for row in table(tables, "brokers")}
    assert sorted(brokers) == [101, 102]
    # The one that asked was killed without a word; what it saw is that the other one was gone.
    assert reported.brokers == "[101]"
    assert brokers[102]["fenced"]
    configs = {
        (row["resource_name"], row["name"]): row["value"] for row in table(tables, "configs")
    }
    assert configs["orders", "retention.ms"] == reported.retention_ms == "3600000"
    voters = {row["id"]: row["uuid"] for row in table(tables, "voters")}
    assert voters == {each.id: each.directory_id for each in quorum.controllers.values()}


def assert_snapshots_are_read(spark: SparkSession, log: Path) -> None:
    """The source reads what stock controllers wrote; the newest one knows the topics."""
    frame = spark.read.format("metadata_snapshot").option("latest", "true").load(str(log))
    names = {row.name for row in frame.where("topic IS NOT NULL").select("topic.name").collect()}
    assert "orders" in names


def assert_audit(logs: list[Path], scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is found in what stock Kafka wrote; one flipped bit in one copy is."""
    capsys.readouterr()
    assert main(["audit", *map(str, logs)]) == 0
    output = capsys.readouterr().out
    assert "no problems found" in output
    assert " 0 of them compared with the log" not in output
    copies = [scratch / f"copy-{log.parent.parent.name}" for log in logs]
    for log, copy in zip(logs, copies, strict=True):
        shutil.copytree(log, copy)
    segment = open_log(copies[1]).segments[0].path
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 4
    segment.write_bytes(content)
    assert main(["audit", *map(str, copies)]) == 1
    findings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FOUND")]
    assert findings
    for line in findings:
        assert line.startswith(f"FOUND {copies[1]}: {segment.name}, byte ")
