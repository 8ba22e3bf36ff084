"""Which replicas a broker has by the metadata, and what two images differ in for it. PURE.

Owns the way from images to stops, changes and strays. Must not know directories of a disk, nor what a replica does.
Source: the replication design V3, "Broker" (start, and changes of the assignment); KIP-516 (topics are told apart by id).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from quorum_node.image.partition import Partition
from quorum_node.image.topics import PartitionKey, Topic, TopicsImage


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition of which the broker has a replica."""

    key: PartitionKey
    topic_name: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class AssignmentChanges:
    """`stopped` comes first: a topic may have come back under its name with another id."""

    stopped: tuple[PartitionKey, ...]
    changed: tuple[AssignedPartition, ...]


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log that lies on the disk. `topic_id`: None if its directory does not say."""

    topic_name: str
    partition_id: int
    topic_id: UUID | None


def assignment_changes(
    broker_id: int, before: TopicsImage, after: TopicsImage
) -> AssignmentChanges:
    """What a broker has to do to get from one image to a later one, however far it is away.

    Looks at the topics of this broker alone, and into those that changed.
    """
    stopped: list[PartitionKey] = []
    for topic in before.topics_of(broker_id):
        later = after.get(topic.topic_id)
        if later is topic:
            continue
        for key, _ in _replicas(broker_id, topic):
            if not _has(broker_id, later, key.partition_id):
                stopped.append(key)
    changed: list[AssignedPartition] = []
    for topic in after.topics_of(broker_id):
        earlier = before.get(topic.topic_id)
        if earlier is topic:
            continue
        for key, partition in _replicas(broker_id, topic):
            known = None if earlier is None else earlier.partitions.get(key.partition_id)
            if known is not partition and known != partition:
                changed.append(AssignedPartition(key, topic.name, partition))
    return AssignmentChanges(tuple(sorted(stopped)), tuple(sorted(changed, key=_by_key)))


def strays(broker_id: int, found: Iterable[FoundLog], image: TopicsImage) -> list[FoundLog]:
    """Logs that this broker should not have: of no topic, of a topic that was deleted, or assigned to others.

    A directory without a topic id is a stray whatever its name: it was never durably made.
    """
    return [
        each
        for each in found
        if each.topic_id is None or not _has(broker_id, image.get(each.topic_id), each.partition_id)
    ]


def _replicas(broker_id: int, topic: Topic) -> Iterator[tuple[PartitionKey, Partition]]:
    for partition_id, partition in topic.partitions.items():
        if broker_id in partition.replicas:
            yield PartitionKey(topic.topic_id, partition_id), partition


def _has(broker_id: int, topic: Topic | None, partition_id: int) -> bool:
    partition = None if topic is None else topic.partitions.get(partition_id)
    return partition is not None and broker_id in partition.replicas


def _by_key(assigned: AssignedPartition) -> PartitionKey:
    return assigned.key
