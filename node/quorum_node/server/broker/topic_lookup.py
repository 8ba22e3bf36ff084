"""From what a request names to a partition of the metadata and the replica here.

Owns the codes for what there is not. Topics are named by id where the version of the request does so, else by name.
"""

from dataclasses import dataclass
from uuid import UUID

from quorum_node.image.partition import Partition
from quorum_node.image.topics import Topic
from quorum_node.protocol.errors import ErrorCode
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.hosted_replica import HostedReplica


@dataclass(frozen=True, slots=True)
class Found:
    """`replica`: None if this broker has none of the partition."""

    topic: Topic
    partition: Partition
    replica: HostedReplica | None


def look_up(
    replicas: AssignedReplicas, topic_id: UUID | None, name: str, partition_id: int
) -> Found | ErrorCode:
    """The partition, or what is answered in its place."""
    topics = replicas.image.topics
    if topic_id is not None:
        topic = topics.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic = topics.named(name)
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return Found(topic, partition, replicas.replica(topic.topic_id, partition_id))
