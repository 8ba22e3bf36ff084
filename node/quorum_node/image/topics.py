"""Topics and their partitions, with the indexes that decisions need. PURE.

Owns topics by id and name, the partitions of a broker (`topics_of_brokers.py` has the topics of each broker, so that
a broker's failure only affects its own topics), and partitions that may need a change: without a leader, in
reassignment, or not led by the preferred replica. Changes are made by `TopicsChanges`.
Topic ids are kept as integers: hashing a UUID object takes longer than the look-up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from immutables import Map

from quorum_node.image.ordering import sorted_lazily, sorted_with_pauses
from quorum_node.image.partition import Partition, at_level
from quorum_node.image.partition_sets import IndexKey, PartitionSet
from quorum_node.image.topics_of_brokers import TopicsOfBrokers
from quorum_node.records.metadata import MetadataMessage, TopicRecord
from quorum_node.records.metadata.metadata_version import ELIGIBLE_LEADER_REPLICAS_LEVEL
from quorum_node.schema.primitives import TaggedFields


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic; its partitions by number. `ordinal`: its number in indexes, which differs between replicas."""

    name: str
    topic_id: UUID
    ordinal: int = field(compare=False)
    partitions: Map[int, Partition] = Map()
    tagged_fields: TaggedFields = ()


class PartitionKey(NamedTuple):
    """Topic and number of a partition."""

    topic_id: UUID
    partition_id: int


def metric_name(name: str) -> str:
    """A topic's name in metrics."""
    return name.replace(".", "_")


def may_collide(name: str) -> bool:
    """Whether another name could have the same metric name."""
    return "." in name or "_" in name


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics. The fields are for `TopicsChanges`; other code uses the methods."""

    by_id: Map[int, Topic] = Map()
    ids: Map[str, int] = Map()
    of_brokers: TopicsOfBrokers = field(default_factory=TopicsOfBrokers, compare=False)
    by_ordinal: Map[int, int] = field(default=Map(), compare=False)
    """Ordinal → topic."""
    next_ordinal: int = field(default=0, compare=False)
    led: Map[int, int] = Map()
    """Broker → number of partitions that it leads; without zeros."""
    marked_leaderless: PartitionSet = field(default_factory=PartitionSet)
    marked_reassigning: PartitionSet = field(default_factory=PartitionSet)
    marked_not_preferred: PartitionSet = field(default_factory=PartitionSet)
    by_metric_name: Map[str, tuple[str, ...]] = Map()
    """Metric name → names of topics. Only names with '.' or '_' can collide, so only those are included."""
    partition_count: int = 0

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.by_id.values())

    def get(self, topic_id: UUID) -> Topic | None:
        """The topic of that id."""
        return self.by_id.get(topic_id.int)

    def named(self, name: str) -> Topic | None:
        """The topic of that name."""
        number = self.ids.get(name)
        return None if number is None else self.by_id[number]

    def colliding(self, name: str) -> str | None:
        """A topic with the same metric name."""
        return next(iter(self.by_metric_name.get(metric_name(name), ())), None)

    def partition(self, topic_id: UUID, partition_id: int) -> Partition | None:
        """The partition, or None."""
        topic = self.by_id.get(topic_id.int)
        return None if topic is None else topic.partitions.get(partition_id)

    def names(self) -> Iterator[str]:
        """Every name, in order."""
        return sorted_lazily(self.ids)

    def topics_of(self, broker_id: int) -> Iterator[Topic]:
        """The topics in which a broker has a replica."""
        for ordinal in self.of_brokers.of(broker_id):
            yield self.by_id[self.by_ordinal[ordinal]]

    def partitions_of(self, broker_id: int) -> Iterator[tuple[IndexKey, Partition]]:
        """The partitions of which a broker has a replica."""
        for topic in self.topics_of(broker_id):
            number = topic.topic_id.int
            for partition_id, partition in topic.partitions.items():
                if broker_id in partition.replicas:
                    yield (number, partition_id), partition

    def replica_count(self, broker_id: int) -> int:
        """Number of replicas of a broker."""
        return sum(1 for _ in self.partitions_of(broker_id))

    def led_count(self, broker_id: int) -> int:
        """Number of partitions that a broker leads."""
        return self.led.get(broker_id, 0)

    def leaderless(self) -> Iterator[PartitionKey]:
        """Partitions without a leader."""
        return self._keys(self.marked_leaderless)

    def reassigning(self) -> Iterator[PartitionKey]:
        """Partitions in reassignment."""
        return self._keys(self.marked_reassigning)

    def not_preferred(self) -> Iterator[PartitionKey]:
        """Partitions whose leader is not the first replica."""
        return self._keys(self.marked_not_preferred)

    def _keys(self, marked: PartitionSet) -> Iterator[PartitionKey]:
        for number, partition_id in marked:
            yield PartitionKey(self.by_id[number].topic_id, partition_id)

    def snapshot_records(self, metadata_version: int) -> Iterator[MetadataMessage | None]:
        """Each topic by name, followed by its partitions; None as in `sorted_with_pauses`."""
        has_all = metadata_version >= ELIGIBLE_LEADER_REPLICAS_LEVEL
        for name in sorted_with_pauses(self.ids):
            if name is None:
                yield None
                continue
            topic = self.by_id[self.ids[name]]
            yield TopicRecord(name=name, topic_id=topic.topic_id, tagged_fields=topic.tagged_fields)
            for each in sorted_with_pauses(topic.partitions.items()):
                if each is None:
                    yield None
                else:
                    yield each[1] if has_all else at_level(each[1], metadata_version)
