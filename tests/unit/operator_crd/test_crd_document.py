"""The checked-in CustomResourceDefinition is the generated one, and it is structural."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from quorum_operator.crd import CONFIG_KEYS, MetadataQuorumSpec
from quorum_operator.crd_document import build, render

CHECKED_IN = Path(__file__).parents[3] / "crds" / "metadataquorums.yaml"


def test_checked_in_crd_equals_the_generated_one() -> None:
    assert CHECKED_IN.read_text() == render(), "run `python -m quorum_operator.crd_document`"
    assert yaml.safe_load(CHECKED_IN.read_text()) == build()


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from _schemas(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _schemas(value)


def test_schema_is_structural() -> None:
    version = build()["spec"]["versions"][0]
    for part in _schemas(version["schema"]["openAPIV3Schema"]):
        assert not {"$ref", "$defs", "anyOf", "allOf", "title"} & set(part)
        if "x-kubernetes-validations" in part:
            for rule in part["x-kubernetes-validations"]:
                assert rule["rule"]
                assert len(rule["message"]) > 20


def test_defaults_make_a_whole_spec() -> None:
    spec = MetadataQuorumSpec.model_validate({})
    assert spec.replicas == 3
    assert spec.storage.size == "1Gi"
    assert spec.repair.debounce_seconds == 30
    assert spec.config is None
    assert all(key.islower() for key in CONFIG_KEYS)
