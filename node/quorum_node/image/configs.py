"""Config values by resource and name. PURE.

Owns the values and their changes by records. Must not know their meaning.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from immutables import Map, MapMutation

from quorum_node.image.ordering import sorted_with_pauses
from quorum_node.made_often import made_often
from quorum_node.records.config_changes import ConfigChange
from quorum_node.records.metadata import ConfigRecord, MetadataMessage


class ConfigKey(NamedTuple):
    """One config of one resource."""

    resource_type: int
    resource_name: str
    name: str


Resource = tuple[int, str]
"""Type, name."""

_NO_VALUES: Map[str, str] = Map()


@made_often
@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Resource → name → value; a resource without values does not exist."""

    by_resource: Map[Resource, Map[str, str]] = Map()

    def get(self, key: ConfigKey) -> str | None:
        """The value, or None."""
        return self.of(key.resource_type, key.resource_name).get(key.name)

    def of(self, resource_type: int, resource_name: str) -> Map[str, str]:
        """All values of one resource."""
        return self.by_resource.get((resource_type, resource_name), _NO_VALUES)

    def entries(self) -> Iterator[tuple[ConfigKey, str]]:
        """All values, sorted by key."""
        return (entry for entry in self.entries_with_pauses() if entry is not None)

    def entries_with_pauses(self) -> Iterator[tuple[ConfigKey, str] | None]:
        """The same; None as in `sorted_with_pauses`."""
        for resource in sorted_with_pauses(self.by_resource):
            if resource is None:
                yield None
                continue
            values = self.by_resource[resource]
            for name in sorted_with_pauses(values):
                yield None if name is None else (ConfigKey(*resource, name), values[name])

    def snapshot_records(self) -> Iterator[MetadataMessage | None]:
        """One record for each value; None as in `sorted_with_pauses`."""
        for resource in sorted_with_pauses(self.by_resource):
            if resource is None:
                yield None
                continue
            kind, resource_name = resource
            values = self.by_resource[resource]
            for name in sorted_with_pauses(values):
                if name is None:
                    yield None
                else:
                    yield ConfigRecord(
                        resource_type=kind,
                        resource_name=resource_name,
                        name=name,
                        value=values[name],
                    )


class ConfigsChanges:
    """A sequence of changes, made in place on private copies; starts from an image, ends with a new one."""

    def __init__(self, image: ConfigsImage) -> None:
        self._by_resource = image.by_resource.mutate()
        self._open: dict[Resource, MapMutation[str, str]] = {}

    def finish(self) -> ConfigsImage:
        """The image with all changes."""
        for resource, values in self._open.items():
            if len(values):
                self._by_resource[resource] = values.finish()
            else:
                self._by_resource.pop(resource, None)
        return ConfigsImage(self._by_resource.finish())

    def replay_config(self, record: ConfigRecord) -> None:
        """Set a value, or delete it with None."""
        self.set_all(((record.resource_type, record.resource_name, record.name, record.value),))

    def set_all(self, changes: Iterable[ConfigChange]) -> None:
        """Set values in order, or delete with None."""
        opened = self._open
        for kind, resource_name, name, value in changes:
            resource = (kind, resource_name)
            values = opened.get(resource)
            if values is None:
                values = opened[resource] = self._by_resource.get(resource, _NO_VALUES).mutate()
            if value is not None:
                values[name] = value
            else:
                values.pop(name, None)

    def remove(self, resource: Resource) -> None:
        """Delete all values of a resource."""
        self._open[resource] = _NO_VALUES.mutate()
