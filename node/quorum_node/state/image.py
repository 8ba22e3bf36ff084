"""The key → value image that the committed metadata records amount to. PURE.

Only `replay` changes state: the same records give an equal image on every replica (K631-05's rule,
on ConfigRecords alone for now; topics count as far as their configs end with them). Knows nothing of
offsets being committed: the caller replays what is below the high watermark, in order, once.
"""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from quorum_node.records.metadata import (
    TYPE_NAMES,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
)
from quorum_node.state.resource_types import TOPIC
from quorum_node.state.transactions import Transactions


class ConfigKey(NamedTuple):
    """One config of one resource."""

    resource_type: int
    resource_name: str
    name: str


class ConfigImage:
    """Config values as of `end_offset` (exclusive)."""

    __slots__ = ("_left_out", "_resources", "_topics", "_transactions", "end_offset")

    def __init__(self) -> None:
        self._resources: dict[tuple[int, str], dict[str, str]] = {}
        self._topics: dict[UUID, str] = {}
        self._transactions = Transactions()
        self._left_out: set[str] = set()
        self.end_offset = 0

    @property
    def left_out(self) -> frozenset[str]:
        """Names of record kinds that were replayed and are not in this image.

        Not empty in a log that a controller of stock Kafka wrote: a snapshot of this image would
        lose what they say, so none may be made of it.
        """
        return frozenset(self._left_out)

    def replay(self, record: MetadataRecord | UnknownMetadata) -> None:
        """Apply one record, or hold it back until the transaction that it belongs to ends."""
        for each in self._transactions.take(record):
            self._apply(each)

    def _apply(self, record: MetadataRecord | UnknownMetadata) -> None:
        match record:
            case ConfigRecord():
                self._apply_config(record)
            case TopicRecord():
                self._topics[record.topic_id] = record.name
                self._left_out.add(type(record).__name__)
            case RemoveTopicRecord():
                self._resources.pop((TOPIC, self._topics.pop(record.topic_id, "")), None)
            case UnknownMetadata():
                self._left_out.add(TYPE_NAMES.get(record.type, f"type {record.type}"))
            case FeatureLevelRecord():
                self._left_out.add(type(record).__name__)
            case NoOpRecord():
                pass

    def _apply_config(self, record: ConfigRecord) -> None:
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
