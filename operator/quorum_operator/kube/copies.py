"""The objects of one watched collection, stored compactly and indexed by label.

Equal parts are shared with the previous object of the kind, and with the object's earlier version. Therefore the
objects must not be modified. This module is independent of the source and the meaning of the objects.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any

Object = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty if cluster-scoped) and name."""

INTERNED_MOST = 128
"""Longer strings are rarely equal and are not shared."""


class Copies:
    """The cached objects. `indexed`: labels with an index."""

    def __init__(self, indexed: tuple[str, ...] = ()) -> None:
        self._indexed = indexed
        self._objects: dict[Key, Object] = {}
        self._by_label: dict[tuple[str, str], dict[Key, None]] = {}
        self._latest: Object = {}

    @property
    def objects(self) -> Mapping[Key, Object]:
        """All objects by namespace and name."""
        return self._objects

    def put(self, key: Key, found: Object) -> Object:
        """Store the object in place of its earlier version. Returns the stored object."""
        old = self._objects.get(key)
        kept: Object = sharing(found, old or self._latest)
        self._latest = self._objects[key] = kept
        if old is not None:
            self._forget(key, old)
        for entry in self._entries(kept):
            self._by_label.setdefault(entry, {})[key] = None
        return kept

    def pop(self, key: Key) -> Object | None:
        """Remove and return an object; None if it is not stored."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._forget(key, old)
        return old

    def matching(self, labels: Mapping[str, str | None]) -> Iterable[Object]:
        """Candidates for these labels: objects with one indexed label if possible, else all."""
        for name in self._indexed:
            value = labels.get(name)
            if value is not None:
                return [self._objects[key] for key in self._by_label.get((name, value), ())]
        return self._objects.values()

    def _forget(self, key: Key, old: Object) -> None:
        for entry in self._entries(old):
            keys = self._by_label.get(entry, {})
            keys.pop(key, None)
            if not keys:
                self._by_label.pop(entry, None)

    def _entries(self, found: Object) -> list[tuple[str, str]]:
        labels = found["metadata"].get("labels") or {}
        return [(name, labels[name]) for name in self._indexed if name in labels]


def sharing(new: Any, old: Any) -> Any:
    """`new` with equal parts replaced by those of `old`; `old` itself if both are equal."""
    kind = type(new)
    if kind is str:
        if new == old:
            return old
        return intern(new) if len(new) <= INTERNED_MOST else new
    if kind is dict:
        before = old if type(old) is dict else {}
        made = {intern(key): sharing(value, before.get(key)) for key, value in new.items()}
        same = len(made) == len(before) and all(
            key in before and value is before[key] for key, value in made.items()
        )
        return before if same and before is old else made
    if kind is list:
        items = old if type(old) is list else []
        shared = [
            sharing(value, items[at] if at < len(items) else None) for at, value in enumerate(new)
        ]
        same = len(shared) == len(items) and all(map(_is, shared, items))
        return items if same and items is old else shared
    return old if kind is type(old) and new == old else new


def _is(one: Any, other: Any) -> bool:
    return one is other
