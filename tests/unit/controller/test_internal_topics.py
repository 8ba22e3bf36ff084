"""Internal topics are placed on brokers that coordinate what the topics store: brokers of this software coordinate no transactions and no share groups."""

from dataclasses import replace

import pytest

from quorum_node.controller.feature_levels import BROKER_OF_THIS_SOFTWARE
from quorum_node.controller.partitions import create_partitions
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import SupportedFeature
from quorum_node.server.broker.lifecycle import registration
from support.controlled_cluster import ControlledCluster

STOCK, OURS = (101, 102), (201, 202, 203, 204)
COORDINATED = ("__transaction_state", "__share_group_state")


@pytest.fixture
def cluster() -> ControlledCluster:
    """Two stock brokers and four of this software, with the features that they register."""
    cluster = ControlledCluster((*STOCK, *OURS))
    for broker_id in OURS:
        offered = registration(broker_id, None, (), (), -1).features
        record = cluster.image.brokers.get(broker_id)
        assert record is not None
        features = tuple(
            SupportedFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in offered
        )
        cluster.replay([replace(record, features=features)])
    return cluster


def create(
    cluster: ControlledCluster, name: str, partitions: int, factor: int
) -> tuple[ErrorCode, str | None]:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
    request = CreateTopicsRequest(topics=(topic,))
    answer = cluster.ask(create_topics, request, CreateTopicsResponse)
    return ErrorCode(answer.topics[0].error_code), answer.topics[0].error_message


def brokers_of(cluster: ControlledCluster, name: str) -> set[int]:
    topic = cluster.image.topics.named(name)
    assert topic is not None
    return {each for partition in topic.partitions.values() for each in partition.replicas}


@pytest.mark.parametrize("name", COORDINATED)
def test_topics_of_coordinators_are_placed_on_stock_brokers_only(
    cluster: ControlledCluster, name: str
) -> None:
    assert create(cluster, name, 50, 2) == (ErrorCode.NONE, None)
    assert brokers_of(cluster, name) == set(STOCK)
    more = CreatePartitionsTopic(name=name, count=100)
    request = CreatePartitionsRequest(topics=(more,), timeout_ms=1000, validate_only=False)
    answer = cluster.ask(create_partitions, request, CreatePartitionsResponse)
    assert not answer.results[0].error_code
    assert brokers_of(cluster, name) == set(STOCK)


@pytest.mark.parametrize("name", ["t", "__consumer_offsets"])
def test_other_topics_are_placed_on_all_brokers(cluster: ControlledCluster, name: str) -> None:
    assert create(cluster, name, 50, 2) == (ErrorCode.NONE, None)
    assert brokers_of(cluster, name) == {*STOCK, *OURS}


@pytest.mark.parametrize("factor", [3, 6])
def test_topic_with_more_replicas_than_coordinators_is_refused_with_the_reason(
    cluster: ControlledCluster, factor: int
) -> None:
    code, text = create(cluster, "__transaction_state", 50, factor)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text is not None
    assert "2 can take replicas" in text
    assert "Apache Kafka" in text


def test_cluster_without_stock_brokers_has_no_topic_of_their_coordinators(
    cluster: ControlledCluster,
) -> None:
    for broker_id in STOCK:
        cluster.fence(broker_id)
    code, text = create(cluster, "__transaction_state", 1, 1)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert text is not None
    assert "Apache Kafka" in text


def test_mark_is_acceptable_to_stock_controllers() -> None:
    """They take any feature whose lowest level is 0."""
    marks = [
        each
        for each in registration(1, None, (), (), -1).features
        if each.name == BROKER_OF_THIS_SOFTWARE
    ]
    assert [(each.min_supported_version, each.max_supported_version) for each in marks] == [(0, 1)]
