"""Whose turn it is: of the PartitionReassignments of one quorum one runs at a time, the oldest first.

Owns the order, by what the watch has shown. That may be out of date for a moment, and two of them run: then they share
the limit, which the controller counts, and a partition that both name ends where the later one wants it.
What is paused lets others go first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from quorum_operator.reassignment_crd import FINAL

Object = dict[str, Any]


class Place(NamedTuple):
    """Which PartitionReassignment."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _Entry:
    quorum: str
    created: str
    runs: bool
    """It neither has ended nor is paused nor is being deleted."""


class Turns:
    """All PartitionReassignments that the watch has shown; `wake` is told of one whose turn it becomes by another's end.

    Told, not returned: the watch and the worker both find out that one has ended, and either may be the first.
    """

    def __init__(self, wake: Callable[[Place], None]) -> None:
        self._wake = wake
        self._entries: dict[Place, _Entry] = {}

    def note(self, place: Place, body: Object) -> None:
        """This is what it looks like."""
        spec = body.get("spec", {})
        quorum = str(spec.get("quorum", ""))
        meta = body["metadata"]
        runs = not (has_ended(body) or spec.get("paused", False) or "deletionTimestamp" in meta)
        created = str(meta.get("creationTimestamp", ""))
        before = self._first(place.namespace, quorum)
        self._entries[place] = _Entry(quorum, created, runs)
        self._pass_on(before, self._first(place.namespace, quorum), place)

    def forget(self, place: Place) -> None:
        """It is gone, or has ended."""
        entry = self._entries.get(place)
        if entry is None:
            return
        before = self._first(place.namespace, entry.quorum)
        del self._entries[place]
        self._pass_on(before, self._first(place.namespace, entry.quorum), place)

    def ahead_of(self, place: Place, quorum: str) -> str | None:
        """The name of the one that goes first, if that is another one."""
        first = self._first(place.namespace, quorum)
        return None if first is None or first == place else first.name

    def _pass_on(self, before: Place | None, after: Place | None, place: Place) -> None:
        if after is not None and after not in {before, place}:
            self._wake(after)

    def _first(self, namespace: str, quorum: str) -> Place | None:
        first = min(self._running(namespace, quorum), default=None)
        return None if first is None else first[1]

    def _running(self, namespace: str, quorum: str) -> Iterator[tuple[str, Place]]:
        for place, entry in self._entries.items():
            if place.namespace == namespace and entry.quorum == quorum and entry.runs:
                yield entry.created, place


def has_ended(body: Object) -> bool:
    """Whether its phase is final."""
    return (body.get("status") or {}).get("phase") in FINAL
