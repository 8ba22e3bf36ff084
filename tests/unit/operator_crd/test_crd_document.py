"""The checked-in CustomResourceDefinitions are the generated ones, they are structural, and no object gets too large."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorum_operator.config_crd import CONFIG_KEYS
from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.crd_document import DEFINITIONS, Definition, build, render
from quorum_operator.reassignment_crd import (
    MAX_PARTITIONS,
    MAX_PROBLEMS,
    MAX_REPLICAS,
    PartitionProblem,
    PartitionReassignmentSpec,
    PartitionReassignmentStatus,
    PartitionTarget,
)
from support.yaml_text import read_yaml

CHECKED_IN = Path(__file__).parents[3] / "crds"
ETCD_LIMIT_BYTES = 3 << 19
KUBECTL_NOTE_BYTES = 256 << 10
"""What annotations may have together: `kubectl apply` keeps a copy of the object in one."""

all_definitions = pytest.mark.parametrize("made", DEFINITIONS.values(), ids=DEFINITIONS.keys())


@all_definitions
def test_checked_in_crd_equals_the_generated_one(made: Definition) -> None:
    file = CHECKED_IN / f"{made.plural}.yaml"
    assert file.read_text() == render(made), "run `make crds`"
    assert read_yaml(file.read_text()) == build(made)


def test_crd_directory_contains_no_other_file() -> None:
    assert {file.stem for file in CHECKED_IN.iterdir()} == set(DEFINITIONS)


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from _schemas(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _schemas(value)


@all_definitions
def test_crd_schema_is_structural(made: Definition) -> None:
    version = build(made)["spec"]["versions"][0]
    for part in _schemas(version["schema"]["openAPIV3Schema"]):
        assert not {"$ref", "$defs", "anyOf", "allOf", "title"} & set(part)
        if "x-kubernetes-validations" in part:
            for rule in part["x-kubernetes-validations"]:
                assert rule["rule"]
                assert len(rule["message"]) > 20


@all_definitions
def test_all_versions_share_one_schema_and_the_previous_version_is_the_stored_one(
    made: Definition,
) -> None:
    """The API server converts by renaming, and an earlier definition can be put back."""
    spec = build(made)["spec"]
    assert spec["conversion"] == {"strategy": "None"}
    assert [each["name"] for each in spec["versions"]] == ["v1beta1", "v1alpha1"]
    assert [each["name"] for each in spec["versions"] if each["storage"]] == ["v1alpha1"]
    assert all(each["served"] for each in spec["versions"])
    first, *others = ({**each, "name": "", "storage": None} for each in spec["versions"])
    assert all(each == first for each in others)


def _undescribed(schema: dict[str, Any], path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        if not field.get("description"):
            yield f"{path}.{name}"
        yield from _undescribed(field, f"{path}.{name}")
        yield from _undescribed(field.get("items", {}), f"{path}.{name}[]")


@all_definitions
def test_every_status_field_has_a_description(made: Definition) -> None:
    for version in build(made)["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        assert list(_undescribed(status, "status")) == []


def test_defaults_complete_a_minimal_spec() -> None:
    spec = MetadataQuorumSpec.model_validate({})
    assert spec.replicas == 3
    assert spec.storage.size == "1Gi"
    assert spec.repair.debounce_seconds == 30
    assert spec.config is None
    assert all(key.islower() for key in CONFIG_KEYS)


def test_largest_reassignment_fits_into_etcd() -> None:
    """With the names of fields that the API server keeps per entry of the list, and the largest status."""
    largest, replicas = 2**31 - 1, list(range(2**31 - MAX_REPLICAS, 2**31))
    topic = "t" * 249
    spec = PartitionReassignmentSpec(
        quorum="q" * 40,
        partitions=[PartitionTarget(topic=topic, partition=largest, replicas=replicas)]
        * MAX_PARTITIONS,
    )
    status = PartitionReassignmentStatus(
        problems=[
            PartitionProblem(
                topic=topic,
                partition=largest,
                reason="UnknownBroker",
                message=f"broker {replicas} is not registered",
            )
        ]
        * MAX_PROBLEMS
    )
    key = f'"k:{{\\"partition\\":{largest},\\"topic\\":\\"{topic}\\"}}":'
    fields = f'{key}{{".":{{}},"f:partition":{{}},"f:replicas":{{}},"f:topic":{{}}}},'
    size_bytes = len(spec.model_dump_json(by_alias=True)) + len(status.model_dump_json())
    size_bytes += MAX_PARTITIONS * len(fields) + KUBECTL_NOTE_BYTES
    assert size_bytes < ETCD_LIMIT_BYTES


def test_reassignment_has_the_documented_defaults() -> None:
    target = PartitionTarget(topic="t", partition=0, replicas=[1])
    spec = PartitionReassignmentSpec(quorum="q", partitions=[target])
    assert (spec.max_moving_partitions, spec.paused, spec.cancel) == (20, False, False)


def test_reassignment_example_is_valid() -> None:
    example = read_yaml((CHECKED_IN.parent / "examples/kafka/reassignment.yaml").read_text())
    spec = PartitionReassignmentSpec.model_validate(example["spec"])
    assert spec.model_dump(by_alias=True, exclude_defaults=True) == example["spec"]
    quorum = read_yaml((CHECKED_IN.parent / "examples/quorum.yaml").read_text())
    assert spec.quorum == quorum["metadata"]["name"]
