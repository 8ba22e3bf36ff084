"""Examples in the pages fit the product: resources pass the validation, and names of members exist."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from quorum_operator.crd import KIND, MetadataQuorumSpec
from support import source_tree as tree

BLOCK = re.compile(r"```ya?ml\n(.*?)```", re.DOTALL)
INCARNATION = re.compile(r"\bdemo-\d+-(\d+)\b")
"""The number of the incarnation in a member's name."""
LEAST = 12
PAGES = [
    path
    for path in sorted(tree.files(".md"))
    if not path.relative_to(tree.ROOT).as_posix().startswith(("docs/evidence/", "CHANGELOG.md"))
]


def specs() -> Iterator[tuple[str, dict[str, Any]]]:
    """The specs of quorums in all pages; a part of one is completed with the required fields."""
    for path in PAGES:
        for block in BLOCK.findall(path.read_text()):
            for document in yaml.safe_load_all(block):
                if not isinstance(document, dict) or "spec" not in document:
                    continue
                if document.get("kind", KIND) == KIND:
                    yield path.name, {"storage": {"size": "1Gi"}, **document["spec"]}


SPECS = list(specs())


def test_the_pages_have_examples() -> None:
    assert len(SPECS) >= LEAST


@pytest.mark.parametrize(("page", "spec"), SPECS, ids=[page for page, _ in SPECS])
def test_an_example_of_the_resource_is_valid(page: str, spec: dict[str, Any]) -> None:
    MetadataQuorumSpec.model_validate(spec)


def test_incarnations_in_the_pages_are_counted_from_one() -> None:
    """The operator never creates number 0: a command with such a pod finds nothing."""
    found = [(path.name, name) for path in PAGES for name in INCARNATION.findall(path.read_text())]
    assert found, "the pages name no member any more"
    assert [each for each in found if each[1] == "0"] == []
