"""Order of the PartitionReassignments of one quorum: one is active at a time, the oldest first.

Based on the watch, which may be outdated for a moment. Two active ones share the limit, which the controller
enforces, and a partition in both gets the replicas of the later one. Paused ones let others go first, and so do those
whose spec is invalid, until it changes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.reassignment_crd import FINAL

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    quorum: str
    created: str
    runs: bool
    """Whether it is valid, not complete, not paused and not being deleted."""


class Turns:
    """All PartitionReassignments of the watch; `wake` is called for one that becomes active because another one
    ended.

    It is a callback because both the watch and the worker notice the end, and either may be first.
    """

    def __init__(self, wake: Callable[[NamespacedName], None]) -> None:
        self._wake = wake
        self._entries: dict[NamespacedName, _Entry] = {}
        self._invalid: dict[NamespacedName, tuple[object, object]] = {}
        """UID and generation of the specs that are invalid."""

    def note(self, resource: NamespacedName, body: Object) -> None:
        """Record the current state of a PartitionReassignment."""
        spec = body.get("spec") or {}
        quorum = str(spec.get("quorum", ""))
        meta = body["metadata"]
        runs = not (has_ended(body) or spec.get("paused", False) or "deletionTimestamp" in meta)
        if self._invalid.get(resource) != _version(meta):
            self._invalid.pop(resource, None)
        created = str(meta.get("creationTimestamp", ""))
        entry = _Entry(quorum, created, runs and resource not in self._invalid)
        self._replace(resource, entry)

    def skip_invalid(self, resource: NamespacedName, body: Object) -> None:
        """Let others go first until the spec of this PartitionReassignment changes: it is invalid."""
        self._invalid[resource] = _version(body["metadata"])
        self.note(resource, body)

    def forget(self, resource: NamespacedName) -> None:
        """Forget a PartitionReassignment that was deleted or has ended."""
        entry = self._entries.get(resource)
        if entry is None:
            return
        before = self._first(resource.namespace, entry.quorum)
        del self._entries[resource]
        self._invalid.pop(resource, None)
        self._pass_on(before, self._first(resource.namespace, entry.quorum), resource)

    def ahead_of(self, resource: NamespacedName, quorum: str) -> str | None:
        """The name of the PartitionReassignment that is active before this one; None if there is none."""
        first = self._first(resource.namespace, quorum)
        return None if first is None or first == resource else first.name

    def _replace(self, resource: NamespacedName, entry: _Entry) -> None:
        before = self._first(resource.namespace, entry.quorum)
        self._entries[resource] = entry
        self._pass_on(before, self._first(resource.namespace, entry.quorum), resource)

    def _pass_on(
        self, before: NamespacedName | None, after: NamespacedName | None, resource: NamespacedName
    ) -> None:
        if after is not None and after not in {before, resource}:
            self._wake(after)

    def _first(self, namespace: str, quorum: str) -> NamespacedName | None:
        first = min(self._running(namespace, quorum), default=None)
        return None if first is None else first[1]

    def _running(self, namespace: str, quorum: str) -> Iterator[tuple[str, NamespacedName]]:
        for resource, entry in self._entries.items():
            if resource.namespace == namespace and entry.quorum == quorum and entry.runs:
                yield entry.created, resource


def _version(meta: Object) -> tuple[object, object]:
    return meta.get("uid"), meta.get("generation")


def has_ended(body: Object) -> bool:
    """Whether its phase is final."""
    return (body.get("status") or {}).get("phase") in FINAL
