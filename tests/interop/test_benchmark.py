"""`make bench` in its shortest form: four systems in one run, and a commit's time split into local and remote.

Shows that it measures, not how fast anything is; docs/evidence/benchmarks.md is of a run in full length.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

BENCH = Path(__file__).resolve().parents[2] / "bench"
SYSTEMS = ("metadataquorum", "etcd", "zookeeper", "kafka")
CLIENTS = [1, 10, 100, 1000]


@pytest.mark.requirement("K595-32")
def test_four_systems_in_one_run(tmp_path: Path) -> None:
    """Writes of every number of clients are committed by all four, and all outlive a killed leader."""
    found = run(
        tmp_path / "comparison.json",
        BENCH,
        "--no-tls",
        "--no-growth",
        "--no-controller",
        "--no-pipeline",
        f"--only={','.join(SYSTEMS)}",
        *(f"--{repeats}=1" for repeats in ("rounds", "kills", "freezes", "terms")),
    )
    assert [entry["system"] for entry in found["rounds"]] == list(SYSTEMS)
    for entry in found["rounds"]:
        assert not entry["failed"], entry
        assert [load["clients"] for load in entry["loads"]] == CLIENTS
        assert all(load["per_second"] > 0 and load["p50_ms"] > 0 for load in entry["loads"]), entry
        assert sorted(entry["faults"]) == ["SIGKILL", "SIGSTOP", "SIGTERM"]
        assert all(gap > 0 for gaps in entry["faults"].values() for gap in gaps), entry


def test_three_systems_commit_with_mutual_tls(tmp_path: Path) -> None:
    """In each system one cluster with TLS and one without, and the turns of the loop during large answers."""
    options = ("--rounds=1", "--seconds=1", "--clients=1,100")
    found = short(tmp_path / "tls.json", BENCH / "mutual_tls.py", *options)
    assert [entry["system"] for entry in found["rounds"]] == ["metadataquorum", "etcd", "kafka"]
    for entry in found["rounds"]:
        assert not entry["failed"], entry
        for variant in ("plain", "tls"):
            assert [load["clients"] for load in entry[variant]] == [1, 100]
            assert all(load["per_second"] > 0 for load in entry[variant]), entry
    for variant in ("plain", "tls"):
        for port in ("Kafka port", "admin port"):
            assert found["holds"][variant][port]["bytes"] > 7 << 20


@pytest.mark.requirement("K595-32")
def test_commit_time_is_broken_down_by_stage(tmp_path: Path) -> None:
    """The leader's histograms: on its disk (flush within fsync), in its state, and until a majority has it."""
    found = run(tmp_path / "growth.json", BENCH / "growth.py", "--only", "path")
    growth = found["growth"]
    assert not growth["failed"]
    for clients in ("1", "100"):
        path = growth["path"][clients]
        assert 0 < path["flush"] <= path["fsync"], path
        assert 0 < path["replication"] <= path["commit"], path
        assert 0 < path["apply"] < path["commit"], path
        assert path["leader"]["samples"]
        assert path["follower"]["samples"]


@pytest.mark.requirement("KV3-02")
def test_brokers_and_controllers_fail_in_both_systems(tmp_path: Path) -> None:
    """Light brokers fail, silently and not, then controllers; the same clocks for us and for stock Kafka."""
    options = ("--rounds=1", "--sizes=1000", "--million=2000")
    found = run(tmp_path / "controller.json", BENCH / "brokers.py", *options)["controller"]
    assert not found["failed"]
    for system in ("ours", "kafka"):
        (created,) = found["creation"][system]
        assert all(created[batch]["topics_per_second"] > 0 for batch in ("1", "100"))
        (failures,) = found["failures"][f"{system}, 1000"]
        for end in ("silent", "asked"):
            assert failures[end]["partitions"] == 1000, "not every partition had a replica there"
            assert 0 < failures[end]["fenced_seconds"] <= failures[end]["seconds"]
        assert all(each["topic_ms"] > 0 < each["heartbeat_ms"] for each in failures["failovers"])
        (lone,) = found["million"][system]
        assert lone["snapshot_write_s"] > 0 < lone["start_from_snapshot_s"]


def test_pipeline_and_stock_kafka_read_one_log(tmp_path: Path) -> None:
    """Everybody goes through all records of the same log; processor time and memory are counted for each."""
    options = ("--records=20000", "--plan=2000")
    found = short(tmp_path / "pipeline.json", BENCH / "pipeline.py", *options)["pipeline"]
    assert not found["failed"]
    assert sum(found["log"]["log"]["kinds"].values()) == 20_000 - 3, "and three control records"
    assert list(found["readers"]) == ["kafka-dump-log", "plain"]
    assert list(found["archive"]) == ["1", "2", "4"]
    assert list(found["state"]) == ["log", "archive"]
    for part in ("readers", "archive", "state"):
        for name, figures in found[part].items():
            assert figures["records"] == 20_000, name
            assert figures["cpu_seconds"] > 0, name
            assert figures["peak_mb"]["command"] > 1, name
    assert "java" in found["archive"]["1"]["peak_mb"]
    assert [each["records"] for each in found["memory"].values()] == [2000] * 2 + [8000] * 2
    assert found["plan"]["plan"]["changed"] > 0


def run(output: Path, program: Path, *options: object) -> dict[str, Any]:
    """The JSON that a short run left; nothing is written into docs/."""
    return short(output, program, *options, "--seconds", "1")


def short(output: Path, program: Path, *options: object) -> dict[str, Any]:
    """The same without a time for each measurement."""
    arguments = [*map(str, options), "--no-report", "--output", str(output)]
    process = subprocess.Popen([sys.executable, str(program), *arguments])
    try:
        assert process.wait(600) == 0
    except subprocess.TimeoutExpired:
        # Killed, it would leave its servers behind, and every later run would talk to them.
        process.send_signal(signal.SIGINT)
        process.wait(60)
        raise
    document: dict[str, Any] = json.loads(output.read_text())
    return document
