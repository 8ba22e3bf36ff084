"""Requests about partitions, one call each, to whichever broker leads. They are repeated by the caller, who knows until when."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from quorum_node.image.resource_types import TOPIC
from quorum_node.protocol import broker_apis, create_topics
from quorum_node.protocol.apis import (
    ALTER_PARTITION_REASSIGNMENTS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from quorum_node.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from support.random_faults.cluster import Cluster

TEMPORARY = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors after which a producer or consumer tries again."""


def create_topic(
    cluster: Cluster, name: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str]
) -> UUID:
    """A topic with these replicas of its partitions; its id. Raises one of NO_ANSWER."""
    assignments = tuple(
        create_topics.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(each))
        for number, each in enumerate(replicas)
    )
    given = tuple(
        create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
    )
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=given
    )
    body = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000)
    answer = cluster.request_any(CREATE_TOPICS, body)
    assert isinstance(answer, create_topics.CreateTopicsResponse)
    (made,) = answer.topics
    if made.error_code or made.topic_id is None:
        raise ConnectionError(f"{name} is not created: {made.error_code} {made.error_message}")
    return made.topic_id


def delete_topic(cluster: Cluster, name: str) -> ErrorCode:
    """Raises one of NO_ANSWER."""
    topics = (DeleteTopicState(name=name),)
    answer = cluster.request_any(
        DELETE_TOPICS, DeleteTopicsRequest(topics=topics, timeout_ms=10_000)
    )
    assert isinstance(answer, DeleteTopicsResponse)
    return ErrorCode(answer.responses[0].error_code)


def alter_topic(cluster: Cluster, name: str, key: str, value: str) -> ErrorCode:
    """Raises one of NO_ANSWER."""
    change = AlterableConfig(name=key, config_operation=ConfigOperation.SET, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(change,))
    body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = cluster.request_any(INCREMENTAL_ALTER_CONFIGS, body)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


def reassign(cluster: Cluster, topic: str, partition: int, replicas: Sequence[int]) -> ErrorCode:
    """Raises one of NO_ANSWER."""
    wanted = ReassignablePartition(partition_index=partition, replicas=tuple(replicas))
    topics = (ReassignableTopic(name=topic, partitions=(wanted,)),)
    body = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=10_000)
    answer = cluster.request_any(ALTER_PARTITION_REASSIGNMENTS, body)
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)


ANY_REPLICA = -2
"""Kafka's replica id of a consumer for debugging, which followers answer as well."""


def list_offsets(
    cluster: Cluster,
    leader: int,
    asked: Mapping[tuple[str, int], int],
    timestamp: int,
    isolation: int,
    replica_id: int = -1,
) -> dict[tuple[str, int], ListOffsetsPartitionResponse]:
    """The answers of a leader; with `replica_id` ANY_REPLICA, of any replica. `asked`: leader epoch by topic and partition, or -1. Raises one of NO_ANSWER."""
    topics = tuple(
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=number, current_leader_epoch=epoch, timestamp=timestamp
                )
                for (each, number), epoch in asked.items()
                if each == name
            ),
        )
        for name in sorted({name for name, _ in asked})
    )
    body = ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation, topics=topics)
    answer = cluster.request(leader, broker_apis.LIST_OFFSETS, body, 2.0)
    assert isinstance(answer, ListOffsetsResponse)
    return {
        (topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }


def produce(
    cluster: Cluster, leader: int, topic_id: UUID, partition: int, data: bytes
) -> PartitionProduceResponse:
    """With acks=all. Raises one of NO_ANSWER."""
    content = (PartitionProduceData(index=partition, records=data),)
    body = ProduceRequest(
        acks=-1,
        timeout_ms=3_000,
        topic_data=(TopicProduceData(topic_id=topic_id, partition_data=content),),
    )
    answer = cluster.request(leader, broker_apis.PRODUCE, body)
    assert isinstance(answer, ProduceResponse)
    return answer.responses[0].partition_responses[0]
