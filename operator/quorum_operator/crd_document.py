"""Generates the CustomResourceDefinitions from the models in `crd.py` and `reassignment_crd.py`.

`python -m quorum_operator.crd_document PLURAL` prints one; `make crds` writes them to `crds/PLURAL.yaml`, and a test
compares them. Owns the conversion of pydantic's JSON schema to a structural schema (no $ref, no anyOf with null, no
title), printer columns and subresources.
"""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel

from quorum_operator.crd import (
    GROUP,
    KIND,
    NAME_RULES,
    PLURAL,
    SERVED_VERSIONS,
    VERSION,
    MetadataQuorumSpec,
)
from quorum_operator.reassignment_crd import (
    REASSIGNMENT_KIND,
    REASSIGNMENT_PLURAL,
    PartitionReassignmentSpec,
    PartitionReassignmentStatus,
)
from quorum_operator.status_crd import MetadataQuorumStatus

Column = tuple[str, str, str, int]
"""A printer column: name, type, path, priority (1 = only with -o wide)."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Input of a definition; `has_default`: a resource may omit its spec."""

    kind: str
    plural: str
    short_name: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    columns: tuple[Column, ...]
    rules: tuple[dict[str, str], ...] = ()
    categories: tuple[str, ...] = ()
    has_default: bool = False
    subresources: dict[str, Any] = dataclasses.field(default_factory=dict)


QUORUM = Definition(
    kind=KIND,
    plural=PLURAL,
    short_name="mq",
    description="A Raft metadata quorum that the operator runs.",
    spec=MetadataQuorumSpec,
    status=MetadataQuorumStatus,
    columns=(
        ("Phase", "string", ".status.phase", 0),
        ("Replicas", "integer", ".spec.replicas", 0),
        ("Voters", "integer", ".status.voters", 0),
        ("Ready", "integer", ".status.readyReplicas", 0),
        ("Leader", "integer", ".status.leader.id", 0),
        ("Tolerance", "integer", ".status.failureTolerance.now", 0),
        ("Plan", "string", ".status.plan.step", 0),
        ("Reason", "string", ".status.plan.reason", 1),
        ("Cluster", "string", ".status.clusterId", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ),
    rules=NAME_RULES,
    categories=("all",),
    has_default=True,
    subresources={
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    },
)
REASSIGNMENT = Definition(
    kind=REASSIGNMENT_KIND,
    plural=REASSIGNMENT_PLURAL,
    short_name="mqr",
    description="A reassignment of partitions to other brokers of a quorum's cluster.",
    spec=PartitionReassignmentSpec,
    status=PartitionReassignmentStatus,
    columns=(
        ("Quorum", "string", ".spec.quorum", 0),
        ("Phase", "string", ".status.phase", 0),
        ("Moving", "integer", ".status.moving", 0),
        ("Done", "integer", ".status.done", 0),
        ("Total", "integer", ".status.total", 0),
        ("Failed", "integer", ".status.failed", 1),
        ("Reason", "string", ".status.conditions[?(@.type=='Progressing')].message", 1),
        ("Age", "date", ".metadata.creationTimestamp", 0),
    ),
)
DEFINITIONS = {each.plural: each for each in (QUORUM, REASSIGNMENT)}


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The model's schema in the form that a CustomResourceDefinition accepts."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    definitions = schema.pop("$defs", {})
    result = _convert(schema, definitions)
    assert isinstance(result, dict)
    return result


def _convert(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_convert(entry, definitions) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    reference = schema.pop("$ref", None)
    if reference is not None:
        target = definitions[reference.rsplit("/", 1)[1]]
        schema = {**target, **schema}
    alternatives = schema.pop("anyOf", None)
    if alternatives is not None:
        # `X | None`: an optional field. Null is never stored, so the field is not nullable either.
        (only,) = [entry for entry in alternatives if entry.get("type") != "null"]
        schema = {**only, **schema}
        return _convert(schema, definitions)
    schema.pop("title", None)
    if schema.get("default", "") is None:
        del schema["default"]
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.pop("additionalProperties", None)
    if schema.get("type") == "integer":
        schema.setdefault("format", "int64" if "default" not in schema else "int32")
    properties = schema.pop("properties", None)
    if isinstance(schema.get("description"), str):
        schema["description"] = " ".join(schema["description"].split())
    converted = {key: _convert(value, definitions) for key, value in schema.items()}
    if properties is not None:
        converted["properties"] = {
            name: _convert(value, definitions) for name, value in properties.items()
        }
    return converted


def _without_defaults(schema: Any) -> Any:
    """Remove defaults, so that the API server adds nothing to a status that the operator did not write."""
    if isinstance(schema, list):
        return [_without_defaults(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_defaults(value) for key, value in schema.items() if key != "default"}


def _complete_defaults(schema: dict[str, Any]) -> None:
    """Write the defaults of the fields into an object's default, because the API server validates the default of the
    object before it fills in others.
    """
    for field in schema.get("properties", {}).values():
        if field.get("type") == "object" and "default" in field:
            _complete_defaults(field)
            field["default"] = _defaults(field)


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    fields = schema["properties"].items()
    return {name: field["default"] for name, field in fields if "default" in field}


def build(made: Definition) -> dict[str, Any]:
    """The whole CustomResourceDefinition as a document."""
    spec = structural(made.spec)
    _complete_defaults(spec)
    if made.has_default:
        spec["default"] = _defaults(spec)
    schema: dict[str, Any] = {
        "description": made.description,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": _without_defaults(structural(made.status)),
        },
    }
    if not made.has_default:
        schema["required"] = ["spec"]
    if made.rules:
        schema["x-kubernetes-validations"] = list(made.rules)
    names: dict[str, Any] = {
        "kind": made.kind,
        "listKind": f"{made.kind}List",
        "plural": made.plural,
        "singular": made.kind.lower(),
        "shortNames": [made.short_name],
    }
    if made.categories:
        names["categories"] = list(made.categories)
    common = {
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **made.subresources},
        "additionalPrinterColumns": [_column(*column) for column in made.columns],
    }
    versions = [
        {"name": each, "served": True, "storage": each == VERSION, **common}
        for each in SERVED_VERSIONS
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{made.plural}.{GROUP}",
            "labels": {"app.kubernetes.io/part-of": "metadataquorum"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "conversion": {"strategy": "None"},
            "versions": versions,
        },
    }


def _column(name: str, kind: str, path: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if priority:
        column["priority"] = priority
    return column


def render(made: Definition) -> str:
    """The document as YAML with a header that names its source."""
    head = "# Generated by `make crds`; do not edit.\n"
    return head + yaml.safe_dump(build(made), sort_keys=False, width=100, allow_unicode=True)


if __name__ == "__main__":
    sys.stdout.write(render(DEFINITIONS[sys.argv[1]]))
