"""CreateTopics and DeleteTopics: what is made, what is refused, and that nothing else changes."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.topic_deletion import delete_topics
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import (
    AccessControlEntryRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from quorum_node.security.authorizer import AuthorizerSettings
from support.controlled_cluster import ControlledCluster, assigned, directory_of


def create(
    cluster: ControlledCluster, *topics: CreatableTopic, validate_only: bool = False
) -> tuple[CreatableTopicResult, ...]:
    request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
    return cluster.ask(create_topics, request, CreateTopicsResponse).topics


def delete(
    cluster: ControlledCluster, *states: DeleteTopicState
) -> tuple[DeletableTopicResult, ...]:
    request = DeleteTopicsRequest(topics=states, timeout_ms=1000)
    return cluster.ask(delete_topics, request, DeleteTopicsResponse).responses


def numbered(name: str, partitions: int = 1, factor: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)


@pytest.mark.requirement("KV3-03")
def test_topic_records_are_written_in_the_order_topic_configs_partitions() -> None:
    cluster = ControlledCluster([1, 2, 3])
    (result,) = create(cluster, assigned("t", (2, 1), (3, 2), retention_ms="1000"))
    assert result.error_code == ErrorCode.NONE
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    topic_id = cluster.topic_id("t")
    assert result.topic_id == topic_id
    directories = (directory_of(2), directory_of(1))
    assert cluster.decided[:3] == [
        TopicRecord(name="t", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000"),
        PartitionRecord(
            partition_id=0, topic_id=topic_id, replicas=(2, 1), isr=(2, 1), leader=2, leader_epoch=0,
            partition_epoch=0, directories=directories,
        ),
    ]  # fmt: skip
    described = {each.name: (each.value, each.config_source) for each in result.configs or ()}
    assert described["retention.ms"] == ("1000", 1)
    assert described["cleanup.policy"] == ("delete", 5)


def test_unspecified_counts_use_the_controller_defaults() -> None:
    cluster = ControlledCluster([1, 2, 3])
    cluster.with_settings(num_partitions=4, default_replication_factor=3)
    (result,) = create(cluster, numbered("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (4, 3)


@pytest.mark.requirement("KV3-03")
def test_fenced_replica_is_not_in_sync_and_does_not_lead() -> None:
    cluster = ControlledCluster([1, 2])
    cluster.fence(1)
    create(cluster, assigned("t", (1, 2)))
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.replicas) == (2, (2,), (1, 2))


def test_validate_only_changes_nothing() -> None:
    cluster = ControlledCluster([1])
    (result,) = create(cluster, numbered("t"), validate_only=True)
    assert result.error_code == ErrorCode.NONE
    assert cluster.decided == []


ONE = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)
BAD_TOPICS: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("empty name", {"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("dot", {"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("dots", {"name": ".."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("long name", {"name": "x" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("blank", {"name": "a b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("not ASCII", {"name": "ä"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("a line feed at the end", {"name": "x\n"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("collision", {"name": "a.b"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("own log", {"name": "__cluster_metadata"}, ErrorCode.INVALID_REQUEST),
    ("exists", {"name": "a_b"}, ErrorCode.TOPIC_ALREADY_EXISTS),
    ("no partitions", {"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
    ("negative partitions", {"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
    ("no replicas", {"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("negative replicas", {"replication_factor": -2}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("more than brokers", {"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ("both", {"assignments": ONE}, ErrorCode.INVALID_REQUEST),
    (
        "both, partitions",
        {"assignments": ONE, "replication_factor": -1},
        ErrorCode.INVALID_REQUEST,
    ),
    ("unknown config", {"configs": {"nope": "1"}}, ErrorCode.INVALID_CONFIG),
    ("wrong value", {"configs": {"retention.ms": "soon"}}, ErrorCode.INVALID_CONFIG),
    ("many digits", {"configs": {"retention.ms": "1" * 5000}}, ErrorCode.INVALID_CONFIG),
    ("out of range", {"configs": {"segment.bytes": "13"}}, ErrorCode.INVALID_CONFIG),
    ("null value", {"configs": {"retention.ms": None}}, ErrorCode.INVALID_CONFIG),
]


@pytest.mark.parametrize(
    ("fields", "code"), [pytest.param(fields, code, id=name) for name, fields, code in BAD_TOPICS]
)
def test_invalid_topic_is_rejected(fields: dict[str, Any], code: ErrorCode) -> None:
    cluster = ControlledCluster([1, 2])
    create(cluster, numbered("a_b"))
    before = cluster.image
    configs = tuple(
        CreatableTopicConfig(name=name, value=value)
        for name, value in fields.pop("configs", {}).items()
    )
    requested = {"name": "t", "num_partitions": 1, "replication_factor": 1, **fields}
    bad, good = create(cluster, CreatableTopic(configs=configs, **requested), numbered("good"))
    assert bad.error_code == code
    assert bad.error_message
    assert good.error_code == ErrorCode.NONE, "an invalid topic affected another one"
    delete(cluster, DeleteTopicState(name="good"))
    assert cluster.image == before


BAD_ASSIGNMENTS: list[tuple[str, tuple[tuple[int, tuple[int, ...]], ...]]] = [
    ("nobody", ((0, ()),)),
    ("unknown broker", ((0, (1, 9)),)),
    ("twice the same broker", ((0, (1, 1)),)),
    ("different numbers of replicas", ((0, (1, 2)), (1, (1,)))),
    ("a gap", ((0, (1,)), (2, (1,)))),
    ("not from 0", ((1, (1,)),)),
    ("a partition twice", ((0, (1,)), (0, (2,)))),
    ("all fenced", ((0, (3,)),)),
]


@pytest.mark.parametrize(
    "assignment", [pytest.param(assignment, id=name) for name, assignment in BAD_ASSIGNMENTS]
)
def test_invalid_assignment_is_rejected(
    assignment: tuple[tuple[int, tuple[int, ...]], ...],
) -> None:
    cluster = ControlledCluster([1, 2, 3])
    cluster.fence(3)
    topic = CreatableTopic(
        name="t",
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in assignment
        ),
    )
    (result,) = create(cluster, topic)
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.decided == []


def test_topic_names_are_compared_within_a_request_too() -> None:
    cluster = ControlledCluster([1])
    results = create(cluster, numbered("x"), numbered("a.b"), numbered("a_b"), numbered("x"))
    assert {each.name: each.error_code for each in results} == {
        "x": ErrorCode.INVALID_REQUEST,
        "a.b": ErrorCode.NONE,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_topic_creation_without_live_brokers_is_rejected() -> None:
    cluster = ControlledCluster([1])
    cluster.change(1, in_controlled_shutdown=1)
    (result,) = create(cluster, numbered("t"))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_broker_takes_replicas_again_after_its_shutdown_has_ended() -> None:
    """Otherwise no topic with a replica on each broker could be created while one of them restarts."""
    cluster = ControlledCluster([1, 2, 3])
    cluster.change(3, in_controlled_shutdown=1)
    (result,) = create(cluster, numbered("t", factor=3))
    assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    cluster.fence(3)
    (result,) = create(cluster, numbered("t", factor=3))
    assert result.error_code == ErrorCode.NONE
    made = cluster.partition("t")
    assert (set(made.replicas), set(made.isr)) == ({1, 2, 3}, {1, 2})


def test_records_per_request_are_limited() -> None:
    cluster = ControlledCluster([1])
    before = cluster.image
    for wanted in (
        [numbered("a", 6000), numbered("b", 6000)],
        [numbered("a", 1 << 30)],
        [numbered(f"t{number}", 243) for number in range(41)],
    ):
        results = create(cluster, *wanted)
        assert {each.error_code for each in results} == {ErrorCode.POLICY_VIOLATION}
        assert cluster.image == before
    (result,) = create(cluster, numbered("a", 9_999))
    assert result.error_code == ErrorCode.NONE


@pytest.mark.requirement("KV3-03")
def test_replicas_are_spread_over_racks() -> None:
    racks = {broker_id: "abc"[broker_id % 3] for broker_id in range(9)}
    cluster = ControlledCluster(range(9), racks=racks)
    create(cluster, numbered("t", 90, 3))
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    for partition_id in range(90):
        replicas = cluster.partition("t", partition_id).replicas
        assert len({racks[each] for each in replicas}) == 3, "every replica is in another rack"
        leads[replicas[0]] += 1
        holds.update(replicas)
    assert set(leads.values()) == {10}
    assert set(holds.values()) == {30}


def test_fenced_brokers_get_replicas_only_if_no_other_broker_is_left() -> None:
    cluster = ControlledCluster([1, 2, 3])
    cluster.fence(2)
    create(cluster, numbered("two", 12, 2), numbered("three", 12, 3))
    for partition_id in range(12):
        assert 2 not in cluster.partition("two", partition_id).replicas
        three = cluster.partition("three", partition_id)
        assert set(three.isr) == {1, 3}
        assert three.leader == three.replicas[0]


def test_cordoned_brokers_get_no_new_replicas() -> None:
    cluster = ControlledCluster([1, 2])
    cluster.change(1, cordoned_log_dirs=(directory_of(1),))
    create(cluster, numbered("t", 8))
    assert {cluster.partition("t", index).replicas for index in range(8)} == {(2,)}


@pytest.mark.requirement("KV3-03")
def test_topic_is_deleted_with_its_configs_and_recreated_with_another_id() -> None:
    cluster = ControlledCluster([1])
    create(cluster, assigned("a.b", (1,), retention_ms="1000"))
    first_id = cluster.topic_id("a.b")
    (by_name,) = delete(cluster, DeleteTopicState(name="a.b"))
    assert (by_name.error_code, by_name.topic_id) == (ErrorCode.NONE, first_id)
    assert cluster.decided[-1] == RemoveTopicRecord(topic_id=first_id)
    assert len(cluster.image.configs.by_resource) == 0
    create(cluster, numbered("a.b"))
    again = cluster.topic_id("a.b")
    assert again != first_id
    (stale,) = delete(cluster, DeleteTopicState(topic_id=first_id))
    assert stale.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    (by_id,) = delete(cluster, DeleteTopicState(topic_id=again))
    assert (by_id.error_code, by_id.name) == (ErrorCode.NONE, "a.b")
    assert create(cluster, numbered("a_b"))[0].error_code == ErrorCode.NONE


def test_invalid_deletions_are_rejected() -> None:
    cluster = ControlledCluster([1])
    create(cluster, numbered("t"), numbered("u"))
    before = cluster.image
    t = cluster.topic_id("t")
    results = delete(
        cluster,
        DeleteTopicState(name="nope"),
        DeleteTopicState(topic_id=UUID(int=7)),
        DeleteTopicState(),
        DeleteTopicState(name="u", topic_id=cluster.topic_id("u")),
        DeleteTopicState(name="t"),
        DeleteTopicState(topic_id=t),
    )
    assert [each.error_code for each in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert cluster.image == before


@pytest.mark.requirement("K631-12")
def test_creation_and_deletion_without_rights_are_rejected() -> None:
    cluster = ControlledCluster([1])
    create(cluster, numbered("t"), numbered("seen"))
    before = cluster.image
    cluster.authorizer = AuthorizerSettings(enabled=True)
    (created,) = create(cluster, numbered("u"))
    assert created.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for name in ("t", "not there"):
        (deleted,) = delete(cluster, DeleteTopicState(name=name))
        assert deleted.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the same for both"
    assert cluster.image == before
    cluster.replay([allow("u", CREATE)])
    (created,) = create(cluster, numbered("u"))
    assert created.error_code == ErrorCode.NONE
    assert created.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def allow(name: str, operation: int, number: int = 1) -> AccessControlEntryRecord:
    """For all principals, on one topic."""
    return AccessControlEntryRecord(
        id=UUID(int=number), resource_type=2, resource_name=name, pattern_type=3, principal="User:*",
        host="*", operation=operation, permission_type=3,
    )  # fmt: skip


CREATE, DELETE, DESCRIBE = 5, 6, 8


@pytest.mark.requirement("K631-12")
def test_right_on_one_topic_suffices_for_it() -> None:
    cluster = ControlledCluster([1])
    create(cluster, numbered("mine"), numbered("theirs"))
    cluster.authorizer = AuthorizerSettings(enabled=True)
    cluster.replay([allow("new", CREATE, 1), allow("mine", DELETE, 2)])
    created = create(cluster, numbered("new"), numbered("other"))
    assert {each.name: each.error_code for each in created} == {
        "new": ErrorCode.NONE,
        "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    deleted = delete(cluster, DeleteTopicState(name="mine"), DeleteTopicState(name="theirs"))
    assert {each.name: each.error_code for each in deleted} == {
        "mine": ErrorCode.NONE,
        "theirs": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert cluster.image.topics.named("theirs") is not None


@pytest.mark.requirement("K631-12")
def test_unauthorized_deletion_has_the_errors_of_stock_kafka() -> None:
    """As stock Kafka: with the right to describe a topic the response has its name, and whether it exists; otherwise not."""
    cluster = ControlledCluster([1])
    create(cluster, numbered("seen"), numbered("hidden"))
    seen, hidden = cluster.topic_id("seen"), cluster.topic_id("hidden")
    cluster.authorizer = AuthorizerSettings(enabled=True)
    cluster.replay([allow("seen", DESCRIBE, 1), allow("not there", DESCRIBE, 2)])
    before = cluster.image

    def told(*states: DeleteTopicState) -> list[tuple[str | None, UUID | None, int]]:
        found = delete(cluster, *states)
        return [(each.name, each.topic_id, each.error_code) for each in found]

    denied, unknown = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = [DeleteTopicState(name=None, topic_id=each) for each in (seen, hidden)]
    assert told(*by_id) == [("seen", seen, denied), (None, hidden, denied)]
    by_name = [DeleteTopicState(name=each) for each in ("seen", "hidden", "not there", "nowhere")]
    assert told(*by_name) == [
        ("seen", None, denied),
        ("hidden", None, denied),
        ("not there", None, unknown),
        ("nowhere", None, denied),
    ]
    both_ways = [DeleteTopicState(name="hidden"), DeleteTopicState(name=None, topic_id=hidden)]
    assert {error for _, _, error in told(*both_ways)} == {denied}, (
        "the answer shows that both are the same topic"
    )
    assert cluster.image == before
