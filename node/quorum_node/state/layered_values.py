"""Values by resource and name that can be frozen at once and go on changing. PURE.

Owns two layers: the base, and while it is frozen the changes since. Freezing costs nothing, whatever there is:
whoever writes a snapshot reads the base, which nobody touches, and replay goes on in the layer above. `thaw` moves
the changes down again, a piece at a time. Knows nothing of what the values mean.
"""

from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import TypeVar

Resource = tuple[int, str]
Values = Mapping[Resource, Mapping[str, str]]
Key = TypeVar("Key", str, Resource)
_SORTED_AT_ONCE = 512


class LayeredValues:
    """resource → name → value; a resource without values does not exist."""

    __slots__ = ("_base", "_changes")

    def __init__(self) -> None:
        self._base: dict[Resource, dict[str, str]] = {}
        self._changes: dict[Resource, dict[str, str | None]] | None = None
        """While frozen: what is different; None deletes."""

    @property
    def frozen(self) -> bool:
        """Whether there is a layer of changes (also while it is being moved down)."""
        return self._changes is not None

    def set(self, resource: Resource, name: str, value: str | None) -> None:
        """Set, or delete with None."""
        if self._changes is not None:
            self._changes.setdefault(resource, {})[name] = value
        else:
            self._set_in_base(resource, name, value)

    def set_all(self, changes: Iterable[tuple[int, str, str, str | None]]) -> None:
        """`set` of many at once: resource type, resource name, name, value."""
        base = self._base
        if self._changes is not None:
            for kind, resource_name, name, value in changes:
                self.set((kind, resource_name), name, value)
            return
        for kind, resource_name, name, value in changes:
            resource = (kind, resource_name)
            values = base.get(resource)
            if values is None or value is None:
                self._set_in_base(resource, name, value)
            else:
                values[name] = value

    def remove(self, resource: Resource) -> None:
        """Delete everything of a resource."""
        if self._changes is None:
            self._base.pop(resource, None)
            return
        names = [*self._base.get(resource, ()), *self._changes.get(resource, ())]
        if names:
            self._changes[resource] = dict.fromkeys(names)

    def get(self, resource: Resource, name: str) -> str | None:
        """The value, or None."""
        if self._changes is not None:
            changed = self._changes.get(resource)
            if changed is not None and name in changed:
                return changed[name]
        values = self._base.get(resource)
        return None if values is None else values.get(name)

    def of(self, resource: Resource) -> dict[str, str]:
        """All values of one resource."""
        values = dict(self._base.get(resource, ()))
        for name, value in (self._changes or {}).get(resource, {}).items():
            if value is None:
                values.pop(name, None)
            else:
                values[name] = value
        return values

    def resources(self) -> Iterator[Resource]:
        """All that have values, in order."""
        found = set(self._base)
        if self._changes is not None:
            found = {each for each in found | set(self._changes) if self.of(each)}
        yield from sorted(found)

    def freeze(self) -> Values:
        """What there is now; it does not change any more until `thaw` begins."""
        assert self._changes is None, "frozen once at a time"
        self._changes = {}
        return self._base

    def thaw(self, max_changes: int) -> bool:
        """Move some of the changes down; True when none is left. Nobody reads the frozen values any more."""
        changes = self._changes
        moved = 0
        while changes and moved < max_changes:
            resource, values = next(iter(changes.items()))
            while values and moved < max_changes:
                name, value = values.popitem()
                self._set_in_base(resource, name, value)
                moved += 1
            if not values:
                del changes[resource]
        if changes:
            return False
        self._changes = None
        return True

    def _set_in_base(self, resource: Resource, name: str, value: str | None) -> None:
        if value is not None:
            self._base.setdefault(resource, {})[name] = value
            return
        values = self._base.get(resource)
        if values is not None:
            values.pop(name, None)
            if not values:
                del self._base[resource]


def in_order(values: Values) -> Iterator[tuple[Resource, str, str]]:
    """Everything, sorted; a generator that never works long at a time, for it shares its interpreter."""
    for resource in _sorted_lazily(values):
        of_resource = values[resource]
        for name in _sorted_lazily(of_resource):
            yield resource, name, of_resource[name]


def _sorted_lazily(keys: Iterable[Key]) -> Iterator[Key]:
    """Sorting a million keys at once would hold up every other thread for a second."""
    every = iter(keys)
    runs: list[list[Key]] = []
    while run := sorted(islice(every, _SORTED_AT_ONCE)):
        runs.append(run)
    return iter(runs[0]) if len(runs) == 1 else merge(*runs)
