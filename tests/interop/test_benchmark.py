"""`make bench` in its shortest form: three systems in one run, and a commit's time split into local and remote.

Shows that it measures, not how fast anything is; docs/benchmarks.md is of a run in full length.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

BENCH = Path(__file__).resolve().parents[2] / "bench"
SYSTEMS = ("metadataquorum", "etcd", "kafka")
CLIENTS = [1, 10, 100, 1000]


@pytest.mark.requirement("K595-32")
def test_three_systems_in_one_run(tmp_path: Path) -> None:
    """Writes of every number of clients are committed by all three, and all outlive a killed leader."""
    found = run(
        tmp_path / "comparison.json",
        BENCH,
        "--no-growth",
        "--no-controller",
        f"--only={','.join(SYSTEMS)}",
        *(f"--{repeats}=1" for repeats in ("rounds", "kills", "freezes", "terms")),
    )
    assert [entry["system"] for entry in found["rounds"]] == list(SYSTEMS)
    for entry in found["rounds"]:
        assert [load["clients"] for load in entry["loads"]] == CLIENTS
        assert all(load["per_second"] > 0 and load["p50_ms"] > 0 for load in entry["loads"]), entry
        assert sorted(entry["faults"]) == ["SIGKILL", "SIGSTOP", "SIGTERM"]
        assert all(gap > 0 for gaps in entry["faults"].values() for gap in gaps), entry


@pytest.mark.requirement("K595-32")
def test_where_the_time_of_a_commit_goes(tmp_path: Path) -> None:
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
            assert failures[end]["partitions"] == 1000, "all of them had a replica there"
            assert 0 < failures[end]["fenced_seconds"] <= failures[end]["seconds"]
        assert all(each["topic_ms"] > 0 < each["heartbeat_ms"] for each in failures["failovers"])
        (lone,) = found["million"][system]
        assert lone["snapshot_write_s"] > 0 < lone["start_from_snapshot_s"]


def run(output: Path, program: Path, *options: object) -> dict[str, Any]:
    """The JSON that a short run left; nothing is written into docs/."""
    arguments = [*map(str, options), "--seconds", "1", "--no-report", "--output", str(output)]
    subprocess.run([sys.executable, str(program), *arguments], check=True, timeout=600)
    document: dict[str, Any] = json.loads(output.read_text())
    return document
