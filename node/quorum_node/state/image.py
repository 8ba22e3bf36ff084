"""The key → value image that the committed metadata records amount to. PURE.

Only `replay` changes state: the same records give an equal image on every replica (K631-05's rule,
on ConfigRecords alone for now). Knows nothing of offsets being committed: the caller replays what
is below the high watermark, in order, once.
"""

from collections.abc import Iterator
from typing import NamedTuple

from quorum_node.records.metadata import ConfigRecord, MetadataRecord, UnknownMetadata


class ConfigKey(NamedTuple):
    """One config of one resource."""

    resource_type: int
    resource_name: str
    name: str


class ConfigImage:
    """Config values as of `end_offset` (exclusive)."""

    __slots__ = ("_resources", "end_offset")

    def __init__(self) -> None:
        self._resources: dict[tuple[int, str], dict[str, str]] = {}
        self.end_offset = 0

    def replay(self, record: MetadataRecord | UnknownMetadata) -> None:
        """Apply one record; kinds that hold no config change nothing."""
        if not isinstance(record, ConfigRecord):
            return
        resource = (record.resource_type, record.resource_name)
        if record.value is not None:
            self._resources.setdefault(resource, {})[record.name] = record.value
            return
        values = self._resources.get(resource, {})
        values.pop(record.name, None)
        if not values:
            self._resources.pop(resource, None)

    def get(self, key: ConfigKey) -> str | None:
        """The value, or None."""
        return self._resources.get((key.resource_type, key.resource_name), {}).get(key.name)

    def resource(self, resource_type: int, resource_name: str) -> dict[str, str]:
        """All values of one resource."""
        return dict(self._resources.get((resource_type, resource_name), {}))

    def entries(self) -> Iterator[tuple[ConfigKey, str]]:
        """Everything, sorted by key."""
        for (kind, resource_name), values in sorted(self._resources.items()):
            for name, value in sorted(values.items()):
                yield ConfigKey(kind, resource_name, name), value
