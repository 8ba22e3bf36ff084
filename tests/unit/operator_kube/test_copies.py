"""Copies share what they have in common, are what was put, and are found by their labels."""

import copy
import json
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorum_operator.desired.names import LABEL_INSTANCE, LABEL_QUORUM, Owner
from quorum_operator.kube.copies import Copies, sharing
from support.member_objects import MemberObjects

Object = dict[str, Any]
BYTES_PER_QUORUM = 60_000
"""Of one of five members: StatefulSets, pods, claims. Without sharing it is five times as much."""

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 2),
    st.sampled_from([0.0, 1.0]),
    st.text("ab", max_size=2),
)
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner),
    max_leaves=12,
)


def text(document: Any) -> str:
    """Python holds 1, 1.0 and True to be equal, and a document does not."""
    return json.dumps(document, sort_keys=True)


@given(DOCUMENTS, DOCUMENTS)
@example({"a": True, "b": 1.0}, {"a": 1, "b": 1})
@example({"a": "b"}, {"a": "b", "b": "a"})
@example(["a"], ["a", "b"])
@settings(max_examples=100)
def test_compressed_copy_restores_the_stored_object_independent_of_earlier_ones(
    new: Any, old: Any
) -> None:
    before = text(old)
    assert text(sharing(copy.deepcopy(new), old)) == text(new)
    assert text(old) == before
    if isinstance(new, dict | list):
        assert sharing(copy.deepcopy(new), new) is new


def found(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "n", "labels": labels}}


def test_object_is_found_by_its_current_label() -> None:
    copies = Copies(("a", "b"))

    def names(**labels: str | None) -> list[str]:
        return [each["metadata"]["name"] for each in copies.matching(labels)]

    for name in ("x", "y"):
        copies.put(("n", name), found(name, a="1", b="2"))
    assert names(a="1") == names(b="2", c="any") == ["x", "y"]
    copies.put(("n", "x"), found("x", a="3"))
    assert (names(a="1"), names(a="3"), names(b="2")) == (["y"], ["x"], ["y"])
    assert copies.pop(("n", "y")) is not None
    assert (names(a="1"), names(b="2")) == ([], [])
    assert copies.pop(("n", "y")) is None
    assert names(c="any") == ["x"], "no index: all objects"
    assert names(a=None) == ["x"], "any value: all objects"


def bytes_of(values: list[Any]) -> int:
    """Memory of all that hangs together, each part once."""
    seen: dict[int, Any] = {}
    todo = list(values)
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, dict):
            todo += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            todo += value
    return sum(map(sys.getsizeof, seen.values()))


@pytest.mark.requirement("OP-03")
def test_cache_of_a_quorum_is_small() -> None:
    quorums = 20
    by_kind: dict[str, Copies] = {}
    for number in range(quorums):
        api = MemberObjects()
        owner = Owner(f"q{number}", "space", f"uid-{number}")
        for node_id in range(1, 6):
            api.add_member(owner, node_id)
        for path, each in api.objects.items():
            kind, _, name = path.rpartition("/")
            copies = by_kind.setdefault(kind, Copies((LABEL_INSTANCE, LABEL_QUORUM)))
            copies.put(("space", name), json.loads(json.dumps(each)))  # a document of its own
    assert len(by_kind) == 3
    taken = bytes_of([each for copies in by_kind.values() for each in copies.objects.values()])
    assert taken / quorums <= BYTES_PER_QUORUM, f"{taken / quorums:.0f} bytes a quorum"
