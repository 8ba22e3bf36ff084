"""The key → value image that the committed metadata records amount to. PURE.

Only `replay` changes state: the same records give an equal image on every replica (K631-05's rule,
on ConfigRecords and feature levels for now; topics count as far as their configs end with them). Knows nothing
of offsets being committed: the caller replays what is below the high watermark, in order, once.

Two images of one offset give the same snapshot records (K595-30): they are sorted, and hold no clock's time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from quorum_node.records.config_changes import ConfigChange
from quorum_node.records.metadata import (
    TYPE_NAMES,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
    encode_metadata,
)
from quorum_node.state.layered_values import LayeredValues, Values, in_order
from quorum_node.state.resource_types import TOPIC
from quorum_node.state.transactions import Transactions


class ConfigKey(NamedTuple):
    """One config of one resource."""

    resource_type: int
    resource_name: str
    name: str


@dataclass(frozen=True, slots=True)
class FrozenImage:
    """An image at one offset, which no longer changes. It may be read on another thread.

    `epoch` and `timestamp_ms` are those of the last batch before `end_offset`.
    """

    end_offset: int
    epoch: int
    timestamp_ms: int
    features: tuple[tuple[str, int], ...]
    values: Values

    def snapshot_records(self) -> Iterator[bytes]:
        """The values of records that make this image again, in an order that all replicas share."""
        for name, level in self.features:
            yield encode_metadata(FeatureLevelRecord(name, level))
        for (kind, resource_name), name, value in in_order(self.values):
            yield encode_metadata(ConfigRecord(kind, resource_name, name, value))


class ConfigImage:
    """Config values and feature levels as of `end_offset` (exclusive)."""

    __slots__ = (
        "_features",
        "_left_out",
        "_topics",
        "_transactions",
        "_values",
        "end_offset",
        "epoch",
        "timestamp_ms",
    )

    def __init__(self) -> None:
        self._values = LayeredValues()
        self._features: dict[str, int] = {}
        self._topics: dict[UUID, str] = {}
        self._transactions = Transactions()
        self._left_out: set[str] = set()
        self.end_offset = 0
        self.epoch = 0
        self.timestamp_ms = 0

    @property
    def left_out(self) -> frozenset[str]:
        """Names of record kinds that were replayed and are not in this image.

        Not empty in a log that a controller of stock Kafka wrote: a snapshot of this image would
        lose what they say, so none may be made of it.
        """
        return frozenset(self._left_out)

    @property
    def is_whole(self) -> bool:
        """Whether a snapshot of it would say all that the log says up to here."""
        return not self._left_out and not self._transactions.is_open

    @property
    def frozen(self) -> bool:
        """Whether `freeze` was called and `thaw` has not ended."""
        return self._values.frozen

    def reached(self, end_offset: int, epoch: int, timestamp_ms: int) -> None:
        """Everything below `end_offset` was replayed; the last batch had this epoch and time."""
        self.end_offset, self.epoch, self.timestamp_ms = end_offset, epoch, timestamp_ms

    def become(self, other: "ConfigImage") -> None:
        """Be what `other` is, all at once; `other` must not be used any more."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))

    def freeze(self) -> FrozenImage:
        """What is in it now; costs nothing and stops nobody. End it with `thaw`."""
        assert self.is_whole, "a snapshot of this would lose what the image leaves out"
        return FrozenImage(
            end_offset=self.end_offset,
            epoch=self.epoch,
            timestamp_ms=self.timestamp_ms,
            features=tuple(sorted(self._features.items())),
            values=self._values.freeze(),
        )

    def thaw(self, max_changes: int = 1 << 62) -> bool:
        """The frozen image is not needed any more; True when all that happened since is merged."""
        return self._values.thaw(max_changes)

    def replay(self, record: MetadataRecord | UnknownMetadata) -> None:
        """Apply one record, or hold it back until the transaction that it belongs to ends."""
        for each in self._transactions.take(record):
            self._apply(each)

    def replay_configs(self, changes: list[ConfigChange]) -> None:
        """`replay` of many config records at once; not within a transaction."""
        assert not self._transactions.is_open, "records of a transaction are held back"
        self._values.set_all(changes)

    @property
    def in_transaction(self) -> bool:
        """Whether records are held back until their transaction ends."""
        return self._transactions.is_open

    def _apply(self, record: MetadataRecord | UnknownMetadata) -> None:
        if not isinstance(record, UnknownMetadata) and record.tagged_fields:
            self._left_out.add(f"{type(record).__name__} with fields of a newer version")
        match record:
            case ConfigRecord():
                self._apply_config(record)
            case TopicRecord():
                self._topics[record.topic_id] = record.name
                self._left_out.add(type(record).__name__)
            case RemoveTopicRecord():
                self._values.remove((TOPIC, self._topics.pop(record.topic_id, "")))
            case UnknownMetadata():
                self._left_out.add(TYPE_NAMES.get(record.type, f"type {record.type}"))
            case FeatureLevelRecord() if record.level:
                self._features[record.name] = record.level
            case FeatureLevelRecord():
                self._features.pop(record.name, None)
            case NoOpRecord():
                pass

    def _apply_config(self, record: ConfigRecord) -> None:
        self._values.set((record.resource_type, record.resource_name), record.name, record.value)

    def get(self, key: ConfigKey) -> str | None:
        """The value, or None."""
        return self._values.get((key.resource_type, key.resource_name), key.name)

    def feature_level(self, name: str) -> int:
        """Finalized level of a feature, 0 for none."""
        return self._features.get(name, 0)

    def resource(self, resource_type: int, resource_name: str) -> dict[str, str]:
        """All values of one resource."""
        return self._values.of((resource_type, resource_name))

    def entries(self) -> Iterator[tuple[ConfigKey, str]]:
        """Everything, sorted by key."""
        for kind, resource_name in self._values.resources():
            for name, value in sorted(self.resource(kind, resource_name).items()):
                yield ConfigKey(kind, resource_name, name), value
