"""Plans as PartitionReassignments: what is written is what the operator's model and definition take."""

import json
from pathlib import Path
from typing import Any

import pytest

from quorum_node.records import metadata as md
from quorum_operator.crd import GROUP, SERVED_VERSIONS
from quorum_operator.reassignment_crd import (
    MAX_PARTITIONS,
    REASSIGNMENT_KIND,
    PartitionReassignmentSpec,
)
from quorum_pipeline.__main__ import main
from quorum_pipeline.placement import resource
from support.written_log import TOPIC_ID, LogWriter, broker, partition
from support.yaml_text import read_yaml, read_yaml_all

KUBECTL_NOTE_BYTES = 256 << 10
"""What the annotations of an object may have together; `kubectl apply` keeps a copy of it there."""

Placed = list[resource.Placed]


def read(texts: list[str]) -> list[dict[str, Any]]:
    return [read_yaml(text) for text in texts]


def placed_in(documents: list[dict[str, Any]]) -> Placed:
    """As the operator understands it."""
    found: Placed = []
    for document in documents:
        assert document["apiVersion"] == f"{GROUP}/{SERVED_VERSIONS[0]}", "the newest one"
        assert document["kind"] == REASSIGNMENT_KIND
        spec = PartitionReassignmentSpec.model_validate(document["spec"])
        assert spec.model_dump(by_alias=True, exclude_defaults=True) == document["spec"]
        assert spec.quorum == "q"
        found += [(each.topic, each.partition, tuple(each.replicas)) for each in spec.partitions]
    return found


@pytest.mark.requirement("OP-08")
@pytest.mark.parametrize("count", [1, 999, 1000, 1001, 2000, 3001])
def test_operator_reads_planned_moves_in_order(count: int) -> None:
    placed: Placed = [("t.x_y-1", number, (3, 1, 2)) for number in range(count)]
    texts = list(resource.documents("drain", "q", placed))
    documents = read(texts)
    assert placed_in(documents) == placed
    names = [document["metadata"]["name"] for document in documents]
    assert len(names) == -(-count // MAX_PARTITIONS)
    assert names == sorted(set(names))
    assert all(name.startswith("drain") for name in names)
    assert resource.MAX_PARTITIONS == MAX_PARTITIONS


def test_long_names_give_smaller_documents_within_the_kubectl_limit() -> None:
    placed: Placed = [
        ("t" * 249, number, tuple(range(10**6, 10**6 + 16))) for number in range(1500)
    ]
    documents = read(list(resource.documents("n", "q", placed)))
    assert placed_in(documents) == placed
    assert len(documents) > 2
    for document in documents:
        assert len(json.dumps(document, separators=(",", ":"))) < KUBECTL_NOTE_BYTES * 0.9


def test_empty_plan_gives_no_document() -> None:
    assert list(resource.documents("n", "q", [])) == []


@pytest.mark.parametrize("name", ["", "Drain", "a b", "-a", "a-", "a" * 201])
def test_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid resource name"):
        resource.check_name(name)


@pytest.mark.requirement("OP-08")
def test_command_writes_the_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number, f"r{number}") for number in (1, 2, 3)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, *(partition(number, (1, 2)) for number in range(9)))
    writer.close()
    out, back, stock = tmp_path / "plan.yaml", tmp_path / "back.yaml", tmp_path / "plan.json"
    command = ["plan", "--log", str(tmp_path)]
    assert main([*command, "--output", str(stock)]) == 0
    command += ["--output", str(out), "--rollback", str(back)]
    assert main([*command, "--resource", "even", "--quorum", "q"]) == 0
    (document,) = read_yaml_all(out.read_text())
    assert document["metadata"]["name"] == "even"
    same = [
        (each["topic"], each["partition"], tuple(each["replicas"]))
        for each in json.loads(stock.read_text())["partitions"]
    ]
    assert placed_in([document]) == same
    (document,) = read_yaml_all(back.read_text())
    assert document["metadata"]["name"] == "even-rollback"
    assert placed_in([document]) == [("orders", number, (1, 2)) for _, number, _ in same]
    capsys.readouterr()
    assert main([*command, "--resource", "even"]) == 2
    assert "--resource needs --quorum, and --quorum needs --resource" in capsys.readouterr().err
    assert main([*command, "--resource", "Even", "--quorum", "q"]) == 2
    assert "'Even' is not a valid resource name" in capsys.readouterr().err
    assert main([*command, "--resource", "even", "--quorum", "q" * 41]) == 2
    assert "40 at most" in capsys.readouterr().err


def test_empty_plan_is_stated_in_its_file(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append(*(broker(number, f"r{number}") for number in (1, 2)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, partition(0, (1, 2)), partition(1, (2, 1)))
    writer.close()
    out = tmp_path / "plan.yaml"
    command = ["plan", "--log", str(tmp_path), "--output", str(out)]
    assert main([*command, "--resource", "even", "--quorum", "q"]) == 0
    assert list(read_yaml_all(out.read_text())) in ([], [None])
    assert "Nothing has to move" in out.read_text()
