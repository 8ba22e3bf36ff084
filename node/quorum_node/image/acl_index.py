"""Index of access control entries by resource, principal and host. PURE.

A check of one resource reads the literal name, `*`, and prefixes of the lengths that occur; for each of them two
principals with two hosts. Its cost does not depend on entries for other resources, principals and hosts.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from immutables import Map

from quorum_node.image.host_text import host_text
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
_NO_LENGTHS: Map[int, int] = Map()


@dataclass(frozen=True, slots=True)
class AclIndex:
    """Persistent, like the image: a change does not affect earlier values."""

    by_resource: Map[_Resource, Map[_Who, _Entries]] = Map()
    prefix_lengths: Map[int, Map[int, int]] = Map()
    """By resource type: number of prefixes with entries, by length."""

    def added(self, record: AccessControlEntryRecord) -> "AclIndex":
        """The index with a new entry."""
        resource, who = _keys(record)
        people = self.by_resource.get(resource)
        lengths = self.prefix_lengths
        if people is None:
            people, lengths = _NOBODY, self._counted(resource, 1)
        entries = people.get(who, _NO_ENTRIES).set(record.id.int, record)
        return AclIndex(self.by_resource.set(resource, people.set(who, entries)), lengths)

    def removed(self, record: AccessControlEntryRecord) -> "AclIndex":
        """The index without an existing entry. Empty nodes are removed."""
        resource, who = _keys(record)
        people = self.by_resource[resource]
        entries = people[who].delete(record.id.int)
        people = people.set(who, entries) if entries else people.delete(who)
        if people:
            return AclIndex(self.by_resource.set(resource, people), self.prefix_lengths)
        return AclIndex(self.by_resource.delete(resource), self._counted(resource, -1))

    def equal_to(
        self, resource_type: int, pattern_type: int, name: str, principal: str, host: str
    ) -> Iterable[AccessControlEntryRecord]:
        """All entries with this resource and pattern, and this principal and host. One address may be written in several ways."""
        people = self.by_resource.get((resource_type, pattern_type, name), _NOBODY)
        return people.get((principal, host_text(host)), _NO_ENTRIES).values()

    def about(self, resource_type: int, name: str) -> Iterator[EntriesOfResource]:
        """All entries that match one resource: by its name, for all names, and by prefixes of its name."""
        literal = self.by_resource.get((resource_type, LITERAL, name))
        if literal is not None:
            yield literal
        everywhere = self.by_resource.get((resource_type, LITERAL, WILDCARD))
        if everywhere is not None and name != WILDCARD:
            yield everywhere
        for length in self.prefix_lengths.get(resource_type, _NO_LENGTHS):
            if length <= len(name):
                found = self.by_resource.get((resource_type, PREFIXED, name[:length]))
                if found is not None:
                    yield found

    def _counted(self, resource: _Resource, change: int) -> Map[int, Map[int, int]]:
        kind, pattern, name = resource
        if pattern != PREFIXED:
            return self.prefix_lengths
        lengths = self.prefix_lengths.get(kind, _NO_LENGTHS)
        count = lengths.get(len(name), 0) + change
        lengths = lengths.set(len(name), count) if count else lengths.delete(len(name))
        if lengths:
            return self.prefix_lengths.set(kind, lengths)
        return self.prefix_lengths.delete(kind)


def _keys(record: AccessControlEntryRecord) -> tuple[_Resource, _Who]:
    resource = (record.resource_type, record.pattern_type, record.resource_name)
    return resource, (record.principal, host_text(record.host))
