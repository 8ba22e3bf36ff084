"""A sequence of changes of the topics, made in place on private copies. PURE.

Owns replay of topic and partition records, and keeps the indexes of `TopicsImage` consistent. The cost of a record
depends on its changes only; a long sequence shares the cost of opening and closing the maps.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from immutables import Map, MapMutation

from quorum_node.image.partition import Partition, changed, normal
from quorum_node.image.partition_sets import PartitionSetChanges
from quorum_node.image.topics import Topic, TopicsImage, may_collide, metric_name
from quorum_node.image.topics_of_brokers import TopicsOfBrokersChanges
from quorum_node.records.metadata import (
    NO_LEADER,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from quorum_node.schema.primitives import TaggedFields

_LEADERLESS, _REASSIGNING, _NOT_PREFERRED = 1, 2, 4


@dataclass(slots=True)
class _OpenTopic:
    name: str
    topic_id: UUID
    ordinal: int
    partitions: MapMutation[int, Partition]
    tagged_fields: TaggedFields
    bereft: set[int] = field(default_factory=set)
    """Brokers that lost a replica of one of its partitions; they may have others."""


class TopicsChanges:
    """Starts from an image and ends with a new one; to be used once."""

    def __init__(self, image: TopicsImage) -> None:
        self._by_id = image.by_id.mutate()
        self._ids = image.ids.mutate()
        self._of_brokers = TopicsOfBrokersChanges(image.of_brokers)
        self._by_ordinal = image.by_ordinal.mutate()
        self._next_ordinal = image.next_ordinal
        self._led = image.led
        self._leaderless = PartitionSetChanges(image.marked_leaderless)
        self._reassigning = PartitionSetChanges(image.marked_reassigning)
        self._not_preferred = PartitionSetChanges(image.marked_not_preferred)
        self._by_metric_name = image.by_metric_name.mutate()
        self._partition_count = image.partition_count
        self._open: dict[int, _OpenTopic] = {}
        self._won: defaultdict[int, int] = defaultdict(int)
        """Broker → difference of the number of partitions that it leads."""

    def finish(self) -> TopicsImage:
        """The image with all changes."""
        for number, topic in self._open.items():
            self._close(number, topic)
        return TopicsImage(
            by_id=self._by_id.finish(),
            ids=self._ids.finish(),
            of_brokers=self._of_brokers.finish(),
            by_ordinal=self._by_ordinal.finish(),
            next_ordinal=self._next_ordinal,
            led=self._leaders(),
            marked_leaderless=self._leaderless.finish(),
            marked_reassigning=self._reassigning.finish(),
            marked_not_preferred=self._not_preferred.finish(),
            by_metric_name=self._by_metric_name.finish(),
            partition_count=self._partition_count,
        )

    def replay_topic(self, record: TopicRecord) -> None:
        """A topic without partitions; replaces a topic with the same id."""
        number = record.topic_id.int
        if self._opened(number) is not None:
            self.replay_remove(RemoveTopicRecord(topic_id=record.topic_id))
        self._ids[record.name] = number
        self._name(record.name, there=True)
        ordinal, self._next_ordinal = self._next_ordinal, self._next_ordinal + 1
        self._by_ordinal[ordinal] = number
        self._open[number] = _OpenTopic(
            record.name,
            record.topic_id,
            ordinal,
            Map[int, Partition]().mutate(),
            record.tagged_fields,
        )

    def replay_remove(self, record: RemoveTopicRecord) -> str | None:
        """Remove a topic with its partitions; returns its name, or None if it does not exist."""
        number = record.topic_id.int
        topic = self._opened(number)
        if topic is None:
            return None
        for partition_id, partition in topic.partitions.finish().items():
            self._index_gone(topic, partition_id, partition)
        self._of_brokers.lost(topic.ordinal, topic.bereft)
        del self._open[number]
        del self._by_ordinal[topic.ordinal]
        self._by_id.pop(number, None)
        if self._ids.get(topic.name) == number:
            del self._ids[topic.name]
            self._name(topic.name, there=False)
        return topic.name

    def replay_partition(self, record: PartitionRecord) -> None:
        """Create or replace a partition."""
        number = record.topic_id.int
        topic = self._opened(number)
        if topic is None:
            raise ValueError(f"a partition of topic {record.topic_id}, which does not exist")
        partition_id, new = record.partition_id, normal(record)
        old = topic.partitions.get(partition_id)
        topic.partitions[partition_id] = new
        if old is None:
            self._index_new(topic, partition_id, new)
        else:
            self._index(topic, partition_id, old, new)

    def replay_change(self, record: PartitionChangeRecord) -> None:
        """Change some fields of a partition."""
        number = record.topic_id.int
        topic = self._opened(number)
        partition = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is None or partition is None:
            key = f"{record.topic_id}-{record.partition_id}"
            raise ValueError(f"a change of partition {key}, which does not exist")
        new = changed(partition, record)
        topic.partitions[record.partition_id] = new
        self._index(topic, record.partition_id, partition, new)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Clear the eligible leader replicas of one topic or of all."""
        named = self._ids.get(record.topic_name)
        if named is None and record.topic_name:
            return
        for number in list(self._ids_in_use()) if named is None else (named,):
            self._clear_elr(number)

    def _ids_in_use(self) -> Iterator[int]:
        """A map mutation can't be iterated: it is finished and started again."""
        ids = self._ids.finish()
        self._ids = ids.mutate()
        return iter(ids.values())

    def _clear_elr(self, number: int) -> None:
        topic = self._opened(number)
        assert topic is not None, "a number of one of the topics"
        before = topic.partitions.finish()
        topic.partitions = before.mutate()
        for partition_id, partition in before.items():
            if partition.eligible_leader_replicas or partition.last_known_elr:
                topic.partitions[partition_id] = without_elr(partition)

    def _name(self, name: str, *, there: bool) -> None:
        if not may_collide(name):
            return
        key = metric_name(name)
        others = tuple(each for each in self._by_metric_name.get(key, ()) if each != name)
        names = tuple(sorted((*others, name))) if there else others
        if names:
            self._by_metric_name[key] = names
        else:
            self._by_metric_name.pop(key, None)

    def _opened(self, number: int) -> _OpenTopic | None:
        topic = self._open.get(number)
        if topic is None:
            closed: Topic | None = self._by_id.get(number)
            if closed is None:
                return None
            topic = self._open[number] = _OpenTopic(
                closed.name,
                closed.topic_id,
                closed.ordinal,
                closed.partitions.mutate(),
                closed.tagged_fields,
            )
        return topic

    def _close(self, number: int, topic: _OpenTopic) -> None:
        partitions = topic.partitions.finish()
        if topic.bereft:
            self._of_brokers.lost(topic.ordinal, _without_replica(topic.bereft, partitions))
        self._by_id[number] = Topic(
            topic.name, topic.topic_id, topic.ordinal, partitions, topic.tagged_fields
        )

    def _index_new(self, topic: _OpenTopic, partition_id: int, new: Partition) -> None:
        self._partition_count += 1
        self._of_brokers.gained(topic.ordinal, new.replicas)
        self._won[new.leader] += 1
        marks = _marks(new)
        if marks:
            self._mark((topic.topic_id.int, partition_id), 0, marks)

    def _index_gone(self, topic: _OpenTopic, partition_id: int, old: Partition) -> None:
        self._partition_count -= 1
        topic.bereft.update(old.replicas)
        self._won[old.leader] -= 1
        marks = _marks(old)
        if marks:
            self._mark((topic.topic_id.int, partition_id), marks, 0)

    def _index(self, topic: _OpenTopic, partition_id: int, old: Partition, new: Partition) -> None:
        before, after = old.replicas, new.replicas
        if before is not after and before != after:
            topic.bereft.update(before)
            self._of_brokers.gained(topic.ordinal, after)
        if old.leader != new.leader:
            self._won[old.leader] -= 1
            self._won[new.leader] += 1
        was, marks = _marks(old), _marks(new)
        if was != marks:
            self._mark((topic.topic_id.int, partition_id), was, marks)

    def _mark(self, key: tuple[int, int], was: int, marks: int) -> None:
        for bit, marked in (
            (_LEADERLESS, self._leaderless),
            (_REASSIGNING, self._reassigning),
            (_NOT_PREFERRED, self._not_preferred),
        ):
            if marks & bit > was & bit:
                marked.add(*key)
            elif marks & bit < was & bit:
                marked.remove(*key)

    def _leaders(self) -> Map[int, int]:
        led = self._led.mutate()
        self._won.pop(NO_LEADER, None)
        for broker_id, won in self._won.items():
            total = led.get(broker_id, 0) + won
            if total:
                led[broker_id] = total
            else:
                led.pop(broker_id, None)
        return led.finish()


def _without_replica(broker_ids: set[int], partitions: Map[int, Partition]) -> set[int]:
    """Those brokers that have no replica of any of these partitions."""
    left = set(broker_ids)
    for partition in partitions.values():
        left.difference_update(partition.replicas)
        if not left:
            break
    return left


def without_elr(partition: Partition) -> Partition:
    """The partition without eligible leader replicas: a change like any other."""
    return replace(
        partition,
        eligible_leader_replicas=None,
        last_known_elr=None,
        partition_epoch=partition.partition_epoch + 1,
    )


def _marks(partition: Partition) -> int:
    """Indexes of partitions that may need a change, and contain this one."""
    marks = 0
    if partition.leader == NO_LEADER:
        marks = _LEADERLESS
    elif not partition.replicas or partition.leader != partition.replicas[0]:
        marks = _NOT_PREFERRED
    if partition.removing_replicas or partition.adding_replicas:
        marks |= _REASSIGNING
    return marks
