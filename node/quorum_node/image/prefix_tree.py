"""Values by prefix: which prefixes of a name have one. PURE.

Owns the structure, a radix tree. The cost of a look-up depends on the length of the name and on the number of prefixes that
match it, not on how many prefixes there are nor on how many different lengths they have. Must not know what the values are.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Generic, TypeVar

from immutables import Map

from quorum_node.schema.schema import value as frozen_value

_V = TypeVar("_V")


@frozen_value
class PrefixTree(Generic[_V]):
    """A node with its subtree; the root has an empty label. Persistent: a change does not affect earlier trees.

    `label`: the characters between the parent and this node. `value`: of the prefix that ends here, None if there is none.
    Each node other than the root has a value or at least two children. Nothing here is recursive, as prefixes may be nested
    deeper than Python's stack.
    """

    label: str = ""
    value: _V | None = None
    children: "Map[str, PrefixTree[_V]]" = field(default_factory=Map)
    """By the first character of their labels."""

    def __bool__(self) -> bool:
        return self.value is not None or bool(self.children)

    def prefixes_of(self, name: str) -> Iterator[_V]:
        """The values of all prefixes of the name, the shortest first; the empty one and the name itself are prefixes, too."""
        node, at, size = self, 0, len(name)
        while True:
            if node.value is not None:
                yield node.value
            if at >= size:
                return
            child = node.children.get(name[at])
            if child is None or not name.startswith(child.label, at):
                return
            node, at = child, at + len(child.label)

    def set(self, prefix: str, value: _V) -> "PrefixTree[_V]":
        """The tree with this value for the prefix."""
        above, node, at = _path(self, prefix)
        rest = prefix[at:]
        if not rest:
            changed = PrefixTree(label=node.label, value=value, children=node.children)
        else:
            child, leaf = node.children.get(rest[0]), PrefixTree(label=rest, value=value)
            changed = _with(node, leaf if child is None else _split(child, leaf))
        return _rebuilt(above, changed)

    def delete(self, prefix: str) -> "PrefixTree[_V]":
        """The tree without a value for the prefix. Raises KeyError."""
        above, node, at = _path(self, prefix)
        if at < len(prefix) or node.value is None:
            raise KeyError(prefix)
        changed = PrefixTree(label=node.label, children=node.children)
        if above and not changed:
            parent = above.pop()
            children = parent.children.delete(node.label[0])
            changed = PrefixTree(label=parent.label, value=parent.value, children=children)
        if changed.label and changed.value is None and len(changed.children) == 1:
            (only,) = changed.children.values()
            label = changed.label + only.label
            changed = PrefixTree(label=label, value=only.value, children=only.children)
        return _rebuilt(above, changed)


def _path(node: PrefixTree[_V], prefix: str) -> tuple[list[PrefixTree[_V]], PrefixTree[_V], int]:
    """The nodes above the last one whose whole path is a prefix of `prefix`, that node, and the length of its path."""
    above: list[PrefixTree[_V]] = []
    at = 0
    while True:
        child = node.children.get(prefix[at : at + 1])
        if child is None or not prefix.startswith(child.label, at):
            return above, node, at
        above.append(node)
        node, at = child, at + len(child.label)


def _with(node: PrefixTree[_V], child: PrefixTree[_V]) -> PrefixTree[_V]:
    children = node.children.set(child.label[0], child)
    return PrefixTree(label=node.label, value=node.value, children=children)


def _split(node: PrefixTree[_V], leaf: PrefixTree[_V]) -> PrefixTree[_V]:
    """A node above the node and the leaf, whose labels have the same first character. It is the leaf itself if its label is part of the node's."""
    pairs = zip(node.label, leaf.label, strict=False)
    shorter = min(len(node.label), len(leaf.label))
    common = next((at for at, (one, other) in enumerate(pairs) if one != other), shorter)
    below = PrefixTree(label=node.label[common:], value=node.value, children=node.children)
    first, rest = Map({below.label[0]: below}), leaf.label[common:]
    if not rest:
        return PrefixTree(label=leaf.label, value=leaf.value, children=first)
    children = first.set(rest[0], PrefixTree(label=rest, value=leaf.value))
    return PrefixTree(label=node.label[:common], children=children)


def _rebuilt(above: list[PrefixTree[_V]], changed: PrefixTree[_V]) -> PrefixTree[_V]:
    for parent in reversed(above):
        changed = _with(parent, changed)
    return changed
