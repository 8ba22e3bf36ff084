"""Replicas that the metadata assigns to a broker, and the differences between two images. PURE.

Owns the derivation of stopped, changed and stray replicas from images. Must not know directories of a disk, nor what
a replica does.
Source: the replication design V3, "Broker" (start, and changes of the assignment); KIP-516 (topics are identified by
id).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from quorum_node.image.partition import Partition
from quorum_node.image.topics import PartitionKey, Topic, TopicsImage


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition with a replica on this broker."""

    key: PartitionKey
    topic_name: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class AssignmentChanges:
    """`stopped` comes first: a topic may have been recreated under its name with another id."""

    stopped: tuple[PartitionKey, ...]
    changed: tuple[AssignedPartition, ...]


@dataclass(frozen=True, slots=True)
class FoundLog:
    """A log on the disk. `topic_id`: None if its directory has none. `directory_id`: of the log directory. `moving_to`: the log directory whose
    log of this replica, if it has one, has taken the place of this one.
    """

    topic_name: str
    partition_id: int
    topic_id: UUID | None
    directory_id: UUID | None = None
    moving_to: UUID | None = None


def assignment_changes(
    broker_id: int, before: TopicsImage, after: TopicsImage
) -> AssignmentChanges:
    """Changes of a broker's replicas between two images, however far apart.

    Examines only topics of this broker that have changed.
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
    """Stray logs: of no topic, of a deleted topic, or assigned to other brokers.

    A directory without a topic id is stray whatever its name: its creation was not completed durably. So is the copy of a directory that has
    the id of a topic with another name.
    """
    return [each for each in found if not _is_own(broker_id, each, image)]


def _is_own(broker_id: int, log: FoundLog, image: TopicsImage) -> bool:
    topic = None if log.topic_id is None else image.get(log.topic_id)
    is_named = topic is not None and topic.name == log.topic_name
    return is_named and _has(broker_id, topic, log.partition_id)


def _replicas(broker_id: int, topic: Topic) -> Iterator[tuple[PartitionKey, Partition]]:
    for partition_id, partition in topic.partitions.items():
        if broker_id in partition.replicas:
            yield PartitionKey(topic.topic_id, partition_id), partition


def _has(broker_id: int, topic: Topic | None, partition_id: int) -> bool:
    partition = None if topic is None else topic.partitions.get(partition_id)
    return partition is not None and broker_id in partition.replicas


def _by_key(assigned: AssignedPartition) -> PartitionKey:
    return assigned.key
