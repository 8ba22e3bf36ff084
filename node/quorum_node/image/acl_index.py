"""Index of access control entries by resource, principal and host. PURE.

A check of one resource reads the literal name, `*`, and the prefixes of the name; for each of them two principals with two hosts. Its
cost does not depend on entries for other resources, principals and hosts, nor on the number and lengths of other prefixes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from immutables import Map

from quorum_node.image.host_text import host_text
from quorum_node.image.prefix_tree import PrefixTree
from quorum_node.records.metadata import AccessControlEntryRecord

LITERAL, PREFIXED = 3, 4
WILDCARD = "*"

_Resource = tuple[int, int, str]
_Who = tuple[str, str]
_Entries = Map[int, AccessControlEntryRecord]
EntriesOfResource = Mapping[_Who, _Entries]
"""By principal and host (in canonical form), then by the entry's id."""

_NO_ENTRIES: _Entries = Map()
_NOBODY: Map[_Who, _Entries] = Map()
_NO_PREFIXES: PrefixTree[Map[_Who, _Entries]] = PrefixTree()


@dataclass(frozen=True, slots=True)
class AclIndex:
    """Persistent, like the image: a change does not affect earlier values."""

    by_resource: Map[_Resource, Map[_Who, _Entries]] = Map()
    prefixes: Map[int, PrefixTree[Map[_Who, _Entries]]] = Map()
    """By resource type: the values of `by_resource` for prefixes."""
    by_caller: Map[tuple[int, str, str], _Entries] = Map()
    """By resource type, principal and host."""

    def added(self, record: AccessControlEntryRecord) -> "AclIndex":
        """The index with a new entry."""
        resource, who = _keys(record)
        people = self.by_resource.get(resource, _NOBODY)
        entries = people.get(who, _NO_ENTRIES).set(record.id.int, record)
        caller = (record.resource_type, *who)
        of_caller = self.by_caller.get(caller, _NO_ENTRIES).set(record.id.int, record)
        return self._with(resource, people.set(who, entries), caller, of_caller)

    def removed(self, record: AccessControlEntryRecord) -> "AclIndex":
        """The index without an existing entry. Empty nodes are removed."""
        resource, who = _keys(record)
        people = self.by_resource[resource]
        entries = people[who].delete(record.id.int)
        people = people.set(who, entries) if entries else people.delete(who)
        caller = (record.resource_type, *who)
        of_caller = self.by_caller[caller].delete(record.id.int)
        return self._with(resource, people, caller, of_caller)

    def equal_to(
        self, resource_type: int, pattern_type: int, name: str, principal: str, host: str
    ) -> Iterable[AccessControlEntryRecord]:
        """All entries with this resource and pattern, and this principal and host. One address may be written in several ways."""
        people = self.by_resource.get((resource_type, pattern_type, name), _NOBODY)
        return people.get((principal, host_text(host)), _NO_ENTRIES).values()

    def of_caller(
        self, resource_type: int, principal: str, host: str
    ) -> Iterable[AccessControlEntryRecord]:
        """All entries with this principal and host (in canonical form), for resources of the type."""
        return self.by_caller.get((resource_type, principal, host), _NO_ENTRIES).values()

    def about(self, resource_type: int, name: str) -> Iterator[EntriesOfResource]:
        """All entries that match one resource: by its name, for all names, and by prefixes of its name."""
        literal = self.by_resource.get((resource_type, LITERAL, name))
        if literal is not None:
            yield literal
        everywhere = self.by_resource.get((resource_type, LITERAL, WILDCARD))
        if everywhere is not None and name != WILDCARD:
            yield everywhere
        yield from self.prefixes.get(resource_type, _NO_PREFIXES).prefixes_of(name)

    def _with(
        self,
        resource: _Resource,
        people: Map[_Who, _Entries],
        caller: tuple[int, str, str],
        of_caller: _Entries,
    ) -> "AclIndex":
        by_resource, prefixes, by_caller = self.by_resource, self.prefixes, self.by_caller
        by_resource = by_resource.set(resource, people) if people else by_resource.delete(resource)
        by_caller = by_caller.set(caller, of_caller) if of_caller else by_caller.delete(caller)
        kind, pattern, name = resource
        if pattern == PREFIXED:
            tree = prefixes.get(kind, _NO_PREFIXES)
            tree = tree.set(name, people) if people else tree.delete(name)
            prefixes = prefixes.set(kind, tree) if tree else prefixes.delete(kind)
        return AclIndex(by_resource, prefixes, by_caller)


def _keys(record: AccessControlEntryRecord) -> tuple[_Resource, _Who]:
    resource = (record.resource_type, record.pattern_type, record.resource_name)
    return resource, (record.principal, host_text(record.host))
