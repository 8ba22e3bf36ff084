"""Versions of the rows of all tables, record by record: the values of each row over time. PURE.

Owns which rows a record may change, and when a new version begins. The image is the node's own, replayed one record at a
time; rows are those of `tables.py`, without columns that count other rows. Keys are partitioned into buckets, so each
bucket is replayed independently. A record goes to the bucket of its key; those of topics, clearings of eligible leader
replicas and transaction boundaries go to all of them, since their effect depends on names and ids that any bucket may
have. A version is valid from the offset of the first state that contains it, which is the offset after its record, or
after the end of its transaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from quorum_node.image.changes import ImageChanges
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.configs import ConfigKey
from quorum_node.image.quotas import entity_of
from quorum_node.image.resource_types import TOPIC
from quorum_node.image.transactions import BOUNDARIES, Transactions
from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_pipeline.deltas.shards import range_of
from quorum_pipeline.state.tables import (
    TABLES_BY_NAME,
    Row,
    StateTable,
    acl_row,
    broker_row,
    config_row,
    feature_row,
    partition_row,
    quota_row,
    topic_row,
    voter_rows,
)

COUNTS = {"brokers": "replicas", "topics": "partitions"}
"""Columns that count rows of another table, left out as they would change with each of those rows."""
EVERY_BUCKET = frozenset({md.TopicRecord, md.RemoveTopicRecord, md.ClearElrRecord, *BOUNDARIES})
Key = tuple[str, Any]
"""Name of a table, and the identifier of a row in it."""


def columns_of(table: StateTable) -> dict[str, str]:
    """Return the columns of a row in a table's versions, with their types."""
    return {name: kind for name, kind in table.columns.items() if name != COUNTS.get(table.name)}


@dataclass(frozen=True, slots=True)
class Version:
    """A row from an offset on. `row`: None if it was removed there; `key`: values of the table's key columns.

    `time_ms`: timestamp of the record, in milliseconds since 1970.
    """

    table: str
    key: tuple[Any, ...]
    row: Row | None
    valid_from: int
    time_ms: int


def buckets_of(record: md.AnyMetadata, count: int) -> Sequence[int]:
    """Return the buckets that have to replay a record; none if no table depends on it."""
    kind = type(record)
    if kind in EVERY_BUCKET:
        return range(count)
    of = _BUCKET_KEYS.get(kind)
    if of is None:
        return ()
    key = of(record)
    return (key % count if isinstance(key, int) else _hashed(key, count),)


def _partition_bucket(record: Any) -> int:
    """Partitions of a large topic are in several buckets, as all of them know the topic."""
    number: int = record.topic_id.int + range_of(record.partition_id)
    return number


def _config_bucket(record: Any) -> object:
    key = (record.resource_type, record.resource_name, record.name)
    return (TOPIC, record.resource_name) if record.resource_type == TOPIC else key


_BUCKET_KEYS: dict[type, Any] = {
    md.PartitionRecord: _partition_bucket,
    md.PartitionChangeRecord: _partition_bucket,
    md.ConfigRecord: _config_bucket,
    md.RegisterBrokerRecord: lambda each: each.broker_id,
    md.UnregisterBrokerRecord: lambda each: each.broker_id,
    md.FenceBrokerRecord: lambda each: each.id,
    md.UnfenceBrokerRecord: lambda each: each.id,
    md.BrokerRegistrationChangeRecord: lambda each: each.broker_id,
    md.FeatureLevelRecord: lambda each: (each.name,),
    md.AccessControlEntryRecord: lambda each: each.id.int,
    md.RemoveAccessControlEntryRecord: lambda each: each.id.int,
    md.ClientQuotaRecord: lambda each: entity_of(each),
}


def _hashed(key: object, count: int) -> int:
    """Return the bucket of a key; the hash is equal in every process."""
    return crc32(repr(key).encode(errors="surrogatepass")) % count


@dataclass(slots=True)
class VersionedBucket:
    """Rows and versions of one of `count` buckets. Replays the records that `buckets_of` assigns to it, in order."""

    number: int
    count: int
    image: ClusterImage = field(default_factory=ClusterImage)
    _current: dict[Key, Row] = field(default_factory=dict)
    _transactions: Transactions = field(default_factory=Transactions)

    def know(self, records: Sequence[md.AnyMetadata]) -> None:
        """Load the state before the first record from records of a snapshot. Raises ValueError if they contradict each other."""
        keys = [key for each in records for key in self._touched(each)]
        changes = ImageChanges(self.image)
        for each in records:
            changes.replay(each)
        self.image = changes.finish()
        for key in keys:
            row = self._row(key)
            if row is not None:
                self._current[key] = row

    def known(self, valid_from: int, time_ms: int) -> Iterator[Version]:
        """Yield a version of each current row."""
        for (table, _), row in self._current.items():
            yield Version(table, _key_of(table, row), row, valid_from, time_ms)

    def take(self, offset: int, time_ms: int, record: md.AnyMetadata) -> list[Version]:
        """Replay a record; return the versions that begin with it. Raises ValueError if it contradicts earlier ones."""
        touched: dict[Key, None] = {}
        for each in self._transactions.take(record):
            touched.update(dict.fromkeys(self._replayed(each)))
        found = (self._changed(key, offset + 1, time_ms) for key in touched)
        return [each for each in found if each is not None]

    def _replayed(self, record: md.AnyMetadata) -> list[Key]:
        """Replay a record; return the rows that it may have changed."""
        keys = list(self._touched(record))
        changes = ImageChanges(self.image)
        changes.replay(record)
        self.image = changes.finish()
        return keys

    def _changed(self, key: Key, valid_from: int, time_ms: int) -> Version | None:
        row, before = self._row(key), self._current.get(key)
        if row == before:
            return None
        if row is None:
            assert before is not None, "they differ"
            del self._current[key]
        else:
            self._current[key] = row
        newest = before if row is None else row
        assert newest is not None, "one of the two is there"
        return Version(key[0], _key_of(key[0], newest), row, valid_from, time_ms)

    def _touched(self, record: Any) -> Iterator[Key]:
        """Yield the rows that a record may change; to be called before it is replayed."""
        match record:
            case md.PartitionRecord() | md.PartitionChangeRecord():
                yield "partitions", (record.topic_id.int, record.partition_id)
            case md.TopicRecord():
                yield "topics", record.topic_id.int
                yield from self._of_topic(record.topic_id.int)
                yield from self._of_topic(self.image.topics.ids.get(record.name))
            case md.RemoveTopicRecord():
                yield from self._of_topic(record.topic_id.int)
            case md.ClearElrRecord():
                for topic in self.image.topics:
                    for partition_id, each in topic.partitions.items():
                        if each.eligible_leader_replicas or each.last_known_elr:
                            yield "partitions", (topic.topic_id.int, partition_id)
            case md.ConfigRecord():
                name = (record.resource_type, record.resource_name, record.name)
                yield "configs", ConfigKey(*name)
            case md.FenceBrokerRecord() | md.UnfenceBrokerRecord():
                yield "brokers", record.id
            case (
                md.RegisterBrokerRecord()
                | md.UnregisterBrokerRecord()
                | md.BrokerRegistrationChangeRecord()
            ):
                yield "brokers", record.broker_id
            case md.FeatureLevelRecord():
                yield "features", record.name
            case md.AccessControlEntryRecord() | md.RemoveAccessControlEntryRecord():
                yield "acls", record.id.int
            case md.ClientQuotaRecord():
                yield "quotas", (entity_of(record), record.key)

    def _of_topic(self, number: int | None) -> Iterator[Key]:
        """Yield all rows of a topic, and the configs of its name."""
        topic = None if number is None else self.image.topics.by_id.get(number)
        if topic is None:
            return
        yield "topics", number
        for partition_id in topic.partitions:
            yield "partitions", (number, partition_id)
        for name in self.image.configs.of(TOPIC, topic.name):
            yield "configs", ConfigKey(TOPIC, topic.name, name)

    def _row(self, key: Key) -> Row | None:
        """Return a row; None if it does not exist, or belongs to another bucket."""
        table, named = key
        row: Row | None = getattr(self, f"_{table}")(named)
        if row is not None and table in COUNTS:
            del row[COUNTS[table]]
        return row

    def _topics(self, number: int) -> Row | None:
        topic = self.image.topics.by_id.get(number)
        mine = number % self.count == self.number
        there = topic is not None and self.image.topics.ids.get(topic.name) == number
        return topic_row(topic) if mine and there and topic is not None else None

    def _partitions(self, named: tuple[int, int]) -> Row | None:
        number, partition_id = named
        topic = self.image.topics.by_id.get(number)
        if topic is None or self.image.topics.ids.get(topic.name) != number:
            return None
        found = topic.partitions.get(partition_id)
        return None if found is None else partition_row(topic, partition_id, found)

    def _configs(self, named: ConfigKey) -> Row | None:
        value = self.image.configs.get(named)
        return None if value is None else config_row(named, value)

    def _brokers(self, broker_id: int) -> Row | None:
        found = self.image.brokers.get(broker_id)
        return None if found is None else broker_row(found, 0)

    def _features(self, name: str) -> Row | None:
        level = self.image.features.levels.get(name)
        return None if level is None else feature_row(name, level)

    def _acls(self, number: int) -> Row | None:
        found = self.image.acls.by_id.get(number)
        return None if found is None else acl_row(found)

    def _quotas(self, named: tuple[Any, str]) -> Row | None:
        entity, name = named
        values = self.image.client_quotas.by_entity.get(entity)
        return (
            None if values is None or name not in values else quota_row(entity, name, values[name])
        )


@dataclass(slots=True)
class VersionedVoters:
    """The current voters, and their versions."""

    _current: dict[tuple[Any, ...], Row] = field(default_factory=dict)

    def know(self, voters: VotersRecord | None) -> None:
        """Load the voters before the first record."""
        self._current = {_key_of("voters", row): row for row in voter_rows(voters)}

    def known(self, valid_from: int, time_ms: int) -> Iterator[Version]:
        """Yield a version of each current voter."""
        for key, row in self._current.items():
            yield Version("voters", key, row, valid_from, time_ms)

    def take(self, offset: int, time_ms: int, voters: VotersRecord) -> Iterator[Version]:
        """Replay a record; yield the versions that begin with it."""
        after = {_key_of("voters", row): row for row in voter_rows(voters)}
        for key in {**self._current, **after}:
            if self._current.get(key) != after.get(key):
                yield Version("voters", key, after.get(key), offset + 1, time_ms)
        self._current = after


def _key_of(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in TABLES_BY_NAME[table].key)
