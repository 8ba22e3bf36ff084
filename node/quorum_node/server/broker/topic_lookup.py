"""Looks up a partition of a request, and its local replica.

Owns the error codes for unknown topics and partitions. Topics are named by id or by name, depending on the version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from quorum_node.controller.authorization import UNRESTRICTED, Rights
from quorum_node.controller.topic_names import name_fault
from quorum_node.image.partition import Partition
from quorum_node.image.topics import Topic
from quorum_node.protocol.errors import ErrorCode
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.server.broker.assigned_replicas import AssignedReplicas
from quorum_node.server.broker.hosted_replica import HostedReplica

May = Callable[[str], bool]
"""Whether the caller may use the topic of that name."""


def anything(name: str) -> bool:
    """Allow every topic, for use without authorization."""
    return True


def on_topics(rights: Rights, operation: AclOperation) -> May:
    """A function that checks the caller's right to this operation on a topic."""
    if rights is UNRESTRICTED:
        return anything
    return lambda name: rights.allows(operation, AclResource.TOPIC, name)


def missing_topic(name: str | None) -> ErrorCode:
    """The error in descriptions of a topic that does not exist. With INVALID_TOPIC_EXCEPTION a producer fails at once: it would wait for
    a topic that is about to be created."""
    if name_fault(name or "") is not None:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class Found:
    """A partition that exists. `replica`: None if this broker has no replica of it."""

    topic: Topic
    partition: Partition
    replica: HostedReplica | None


def look_up(
    replicas: AssignedReplicas,
    topic_id: UUID | None,
    name: str,
    partition_id: int,
    may: May = anything,
    *,
    by_id: bool = False,
) -> Found | ErrorCode:
    """The partition, or an error code. In requests by name, a caller without the right does not learn whether the topic exists.

    `by_id`: the request names topics by id. An id of zeros, which is decoded as None, is unknown.
    """
    topics = replicas.image.topics
    if by_id:
        topic = None if topic_id is None else topics.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    else:
        topic = topics.named(name)
    if not may(name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition = None if topic is None else topic.partitions.get(partition_id)
    if topic is None or partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    replica = replicas.replica(topic.topic_id, partition_id)
    has_failed = replica is not None and replica.has_failed
    if has_failed or replicas.is_offline(topic.topic_id, partition_id):
        return ErrorCode.KAFKA_STORAGE_ERROR
    return Found(topic, partition, replica)
