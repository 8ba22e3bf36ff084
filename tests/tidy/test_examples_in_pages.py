"""Examples in the pages fit the product: resources pass the validation, and names of members and fields exist."""

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from quorum_operator.crd import KIND, MetadataQuorumSpec
from support import source_tree as tree
from support.yaml_text import read_yaml_all

BLOCK = re.compile(r"```ya?ml\n(.*?)```", re.DOTALL)
INCARNATION = re.compile(r"\bdemo-\d+-(\d+)\b")
"""The number of the incarnation in a member's name."""
LEAST = 12
FIELD = re.compile(r"(?<![\w.])\.?((?:spec|status)(?:\.[a-zA-Z]+(?:\[\])?)+)")
"""A field of a resource in a sentence, a command or a message."""
SPEAKING = ("planner", "certificates", "plugin")
OF_OTHER_KINDS = {"spec.holderIdentity", "status.py"}
"""Of a Lease; a module."""
SCHEMAS = [
    version["schema"]["openAPIV3Schema"]
    for path in sorted((tree.ROOT / "crds").glob("*.yaml"))
    for version in yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]["versions"]
]
PAGES = [
    path
    for path in sorted(tree.files(".md"))
    if not path.relative_to(tree.ROOT).as_posix().startswith(("docs/evidence/", "CHANGELOG.md"))
]


def specs() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specs of quorums in all pages; a part of one is completed with the required fields."""
    for path in PAGES:
        for block in BLOCK.findall(path.read_text()):
            for document in read_yaml_all(block):
                if not isinstance(document, dict) or "spec" not in document:
                    continue
                if document.get("kind", KIND) == KIND:
                    yield path.name, {"storage": {"size": "1Gi"}, **document["spec"]}


SPECS = list(specs())


def test_pages_have_examples() -> None:
    assert len(SPECS) >= LEAST


@pytest.mark.parametrize(("page", "spec"), SPECS, ids=[page for page, _ in SPECS])
def test_resource_examples_are_valid(page: str, spec: dict[str, Any]) -> None:
    MetadataQuorumSpec.model_validate(spec)


def test_incarnations_in_the_pages_start_at_one() -> None:
    """The operator never creates number 0: a command with such a pod finds nothing."""
    found = [(path.name, name) for path in PAGES for name in INCARNATION.findall(path.read_text())]
    assert found, "no page names a member"
    assert [each for each in found if each[1] == "0"] == []


def has(schema: dict[str, Any], names: list[str]) -> bool:
    """Whether the schema has a field at this path; items of lists and values of maps add no name of their own."""
    if not names or schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    if "items" in schema:
        return has(schema["items"], names)
    own = schema.get("properties", {})
    if names[0] in own:
        return has(own[names[0]], names[1:])
    others = schema.get("additionalProperties")
    return isinstance(others, dict) and has(others, names[1:])


def unknown_fields(text: str) -> list[str]:
    """Fields that none of our resources has, in any version."""
    return [
        each
        for each in FIELD.findall(text)
        if each not in OF_OTHER_KINDS
        and not any(has(schema, each.replace("[]", "").split(".")) for schema in SCHEMAS)
    ]


def test_fields_that_pages_and_the_operator_name_exist() -> None:
    texts = {path.name: path.read_text() for path in PAGES}
    # In `kube` and `desired` there are paths of Kubernetes' own objects.
    for path in tree.modules(*(f"operator/quorum_operator/{each}" for each in SPEAKING)):
        literals = [
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        texts[path.name] = "\n".join(literals)
    assert sum(len(FIELD.findall(each)) for each in texts.values()) > 250
    found = {name: unknown_fields(text) for name, text in texts.items()}
    assert {name: fields for name, fields in found.items() if fields} == {}


@pytest.mark.parametrize(
    "text",
    ["set `spec.repair.unreachableAfter`", "jsonpath='{.status.quorumLost}'", "spec.pause: true"],
)
def test_unknown_field_is_detected(text: str) -> None:
    assert len(unknown_fields(text)) == 1
