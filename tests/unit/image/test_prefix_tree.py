"""The tree of prefixes against a plain dictionary, and what a look-up reads."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from quorum_node.image.prefix_tree import PrefixTree

NAMES = st.text("ab\U0001f40d", max_size=6)


def is_compact(tree: PrefixTree[int]) -> bool:
    """No node below the root could be left out."""
    below = [node for node in nodes_of(tree) if node is not tree]
    return all(node.value is not None or len(node.children) > 1 for node in below)


def nodes_of(tree: PrefixTree[int]) -> list[PrefixTree[int]]:
    found, left = [], [tree]
    while left:
        node = left.pop()
        found.append(node)
        left += node.children.values()
    return found


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=30), st.lists(NAMES, max_size=5))
def test_tree_finds_the_same_prefixes_as_a_scan_of_all(
    changes: list[tuple[str, bool]], names: list[str]
) -> None:
    """Prefixes come, are replaced and go; earlier trees stay as they are."""
    tree: PrefixTree[int] = PrefixTree()
    held: dict[str, int] = {}
    versions = [(tree, dict(held))]
    for number, (prefix, is_removal) in enumerate(changes):
        if not is_removal:
            held[prefix] = number
            tree = tree.set(prefix, number)
        elif prefix in held:
            del held[prefix]
            tree = tree.delete(prefix)
        else:
            with pytest.raises(KeyError):
                tree.delete(prefix)
        versions.append((tree, dict(held)))
    for each, held_then in versions:
        assert bool(each) == bool(held_then)
        for name in [*names, *(prefix for prefix, _ in changes)]:
            expected = sorted((one for one in held_then if name.startswith(one)), key=len)
            assert list(each.prefixes_of(name)) == [held_then[one] for one in expected]
        assert is_compact(each)


def test_prefixes_nested_deeper_than_the_stack_are_found() -> None:
    tree: PrefixTree[int] = PrefixTree()
    for length in range(2000):
        tree = tree.set("a" * length, length)
    assert list(tree.prefixes_of("a" * 3000)) == list(range(2000))
    for length in range(2000):
        tree = tree.delete("a" * length)
    assert tree == PrefixTree()


def test_lookup_reads_one_node_per_matching_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: prefixes of 200 different lengths cost a name nothing if none of them is its prefix."""
    tree: PrefixTree[int] = PrefixTree()
    tree = tree.set("n-", 0)
    for length in range(200):
        tree = tree.set(f"n-{'x' * length}!", length)
    reads: list[str] = []
    real = PrefixTree.children

    class Counted:
        def __get__(self, instance: Any, owner: Any) -> Map[str, PrefixTree[int]]:
            reads.append(instance.label)
            found: Map[str, PrefixTree[int]] = real.__get__(instance, owner)
            return found

    monkeypatch.setattr(PrefixTree, "children", Counted())
    assert list(tree.prefixes_of("n-" + "y" * 245)) == [0]
    assert reads == ["", "n-"]
