"""Every field of a replica's state is written by one module."""

from pathlib import Path

import pytest

from support.source_tree import ROOT, modules
from support.state_owners import STATE, state_fields, writers, writes

OWNERS = {
    "log_positions": {"log_end", "durable_end", "high_watermark", "start", "snapshot", "epochs"},
    "epoch_state": {
        "epoch",
        "voted",
        "remembered_leader_id",
        "saved_leader",
        "leader_is_unsaved",
        "save_leader_at_ms",
    },
}


def test_every_field_has_one_writer() -> None:
    found = writers(modules("node/quorum_node"))
    assert {field: names for field, names in found.items() if len(names) > 1} == {}
    assert len(found) > 25, "the search finds no assignments"


@pytest.mark.parametrize(("owner", "fields"), OWNERS.items())
def test_safety_relevant_state_is_written_in_one_module(owner: str, fields: set[str]) -> None:
    found = writers(modules("node/quorum_node"))
    assert {field: found[field] for field in fields} == {field: {owner} for field in fields}


@pytest.mark.parametrize(
    "source",
    [
        "def f(replica: ReplicaState) -> None:\n    replica.log_end = 1\n",
        "def f(r: ReplicaState) -> None:\n    r.log_end = r.durable_end = 1\n",
        "def f(r: Replica) -> None:\n    r.log_end -= 1\n",
        "def f(replica: ReplicaState) -> None:\n    x, replica.log_end = 1, 2\n",
        "def f(r: ReplicaState) -> None:\n    def g() -> None:\n        r.log_end: int = 1\n",
        "class Driver:\n    def f(self) -> None:\n        self.replica.log_end = 1\n",
        "class Replica:\n    def f(self) -> None:\n        self.log_end = 1\n",
        "def f(replica: ReplicaState) -> None:\n    replica.log_end[3] = 1\n",
        "def f(replica: ReplicaState) -> None:\n    del replica.log_end\n",
        "def f(replica: ReplicaState) -> None:\n    for replica.log_end in (1, 2): pass\n",
    ],
)
def test_second_writer_is_detected(source: str, tmp_path: Path) -> None:
    path = tmp_path / "second.py"
    path.write_text(source)
    owner = ROOT / STATE["LogPositions"]
    assert writers([owner, path])["log_end"] == {"log_positions", "second"}


def test_reads_and_foreign_fields_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def f(replica: ReplicaState, leader: Leader) -> int:\n"
        "    leader.epoch = replica.epoch\n"
        "    replica.discovery.failures = 1\n"
        "    replica.out.append(1)\n"
        "    return replica.log_end\n"
    )
    assert list(writes(path)) == []


def test_fields_are_those_of_the_state() -> None:
    assert {"log_end", "voted", "role", "partial", "now_ms"} <= state_fields()
    assert len(state_fields()) > 45
