"""Eligible leader replicas (KIP-966): which are stored when an ISR shrinks, and which may not lead after an unclean shutdown."""

from uuid import UUID

import pytest

from quorum_node.controller import unclean_shutdown
from quorum_node.controller.feature_levels import ELIGIBLE_LEADER_REPLICAS
from quorum_node.controller.features import update_features
from quorum_node.controller.topic_settings import MIN_INSYNC_REPLICAS
from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.protocol.broker_registration import UnregisterBrokerRequest
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from quorum_node.protocol.elect_leaders import ElectionType
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.features import (
    FeatureUpdate,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from quorum_node.records.metadata import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from support.broker_requests import registration
from support.controlled_cluster import ControlledCluster
from support.partition_env import PartitionEnv

State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def state(env: PartitionEnv, partition_id: int = 0) -> State:
    """Leader, ISR, eligible leader replicas, last known leader."""
    now = env.partition(partition_id)
    return now.leader, now.isr, now.eligible_leader_replicas or (), now.last_known_elr or ()


async def three_brokers(min_insync_replicas: int = 2) -> PartitionEnv:
    env = PartitionEnv()
    await env.begin(7, 8, 9)
    await env.topic((7, 8, 9), min_insync_replicas=str(min_insync_replicas))
    return env


async def restart(env: PartitionEnv, broker_id: int, *, cleanly: bool, process: int) -> None:
    """A new process; it is fenced until its first heartbeat."""
    epoch = env.epochs[broker_id] if cleanly else -1
    answer = await env.do(registration(broker_id, process, previous_broker_epoch=epoch))
    assert answer.error_code == ErrorCode.NONE
    env.epochs[broker_id] = answer.broker_epoch
    await env.settle()


@pytest.mark.requirement("KV3-09")
async def test_replica_removed_below_min_insync_replicas_may_still_be_elected() -> None:
    env = await three_brokers()
    await env.fail(8)
    assert state(env) == (7, (7, 9), (), ()), "two are enough"
    await env.fail(9)
    assert state(env) == (7, (7,), (9,), ())
    await env.fail(7)
    assert state(env) == (NO_LEADER, (), (7, 9), (7,))
    await env.beat(8)
    assert state(env)[0] == NO_LEADER, "messages were acknowledged without 8"
    await env.beat(9)
    assert state(env) == (9, (9,), (7,), ())
    assert env.partition().leader_recovery_state == RECOVERED, "nothing was lost"
    await env.beat(7)
    state_after = await env.alter(9, 9, 7)
    assert state_after.error_code == ErrorCode.NONE
    assert state(env) == (9, (9, 7), (), ())


@pytest.mark.requirement("KV3-09")
async def test_replica_that_was_removed_and_added_again_is_not_elected_with_an_empty_log() -> None:
    """With all three replicas required, the move of partition 1 to two of them ends while the third is eligible."""
    env = PartitionEnv()
    await env.begin(7, 8, 9)
    await env.topic((7, 8, 9), (7, 8, 9), min_insync_replicas="3")
    await env.fail(8)
    assert state(env, 1) == (7, (7, 9), (8,), ())
    await env.reassign(1, 7, 9)
    assert env.partition(1).replicas == (7, 9)
    assert state(env, 1) == (7, (7, 9), (), ()), "its broker deletes the log"
    await env.beat(8)
    await env.reassign(1, 7, 9, 8)
    assert env.partition(1).adding_replicas == (8,)
    await env.fail(9)
    await env.fail(7)
    assert state(env, 1) == (NO_LEADER, (), (7, 9), (7,)), "8 has no message yet"


@pytest.mark.requirement("KV3-09")
async def test_reassignment_ends_when_its_only_target_is_elected_from_the_eligible_replicas() -> (
    None
):
    """No further change would end it, because the other broker is gone."""
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic((7, 8), min_insync_replicas="2")
    await env.fail(8)
    assert state(env) == (7, (7,), (8,), ())
    await env.reassign(0, 8)
    assert env.partition().removing_replicas == (7,)
    await env.beat(8)
    await env.fail(7)
    assert state(env) == (8, (8,), (), ())
    assert env.partition().replicas == (8,)
    assert not env.partition().is_reassigning


@pytest.mark.requirement("KV3-09")
async def test_unclean_shutdown_clears_eligibility_and_a_clean_one_does_not() -> None:
    env = await three_brokers()
    for broker_id in (8, 9):
        await env.fail(broker_id)
    await restart(env, 9, cleanly=True, process=2)
    assert state(env) == (7, (7,), (9,), ())
    await restart(env, 9, cleanly=False, process=3)
    assert state(env) == (7, (7,), (), ())


@pytest.mark.parametrize("last", [7, 9])
async def test_unregistered_broker_that_returns_is_not_elected_with_an_empty_log(last: int) -> None:
    """Nobody knows what the disks of its new process contain, whatever epoch it sends."""
    env = await three_brokers()
    for broker_id in (8, 9, 7):
        await env.fail(broker_id)
    assert state(env) == (NO_LEADER, (), (7, 9), (7,))
    await env.do(UnregisterBrokerRequest(broker_id=last))
    await env.settle()
    await restart(env, last, cleanly=True, process=2)
    await env.beat(last)
    other = 16 - last
    assert (env.partition().eligible_leader_replicas or ()) == (other,)
    assert env.partition().leader == NO_LEADER
    await env.beat(other)
    assert state(env) == (other, (other,), (), ())
    assert env.partition().leader_recovery_state == RECOVERED, "nothing was lost"


@pytest.mark.requirement("KV3-09")
async def test_isr_member_with_an_unclean_shutdown_is_removed_before_registration() -> None:
    env = await three_brokers()
    pending = env.ask(registration(7, 2, previous_broker_epoch=-1))
    await env.turn()
    values = env._open[-1][2]
    assert [value[1] for value in values] == [5, 0], "the partition change is not first"
    await env.settle()
    env.epochs[7] = pending.answer.broker_epoch
    assert state(env) == (8, (8, 9), (), ())
    assert env.committed.image.brokers.is_active(8)


@pytest.mark.requirement("KV3-09")
async def test_last_leader_with_an_unclean_shutdown_leads_again_and_must_recover() -> None:
    env = await three_brokers()
    await env.alter(7, 7)
    assert state(env) == (7, (7,), (8, 9), ())
    for broker_id in (8, 9):
        await restart(env, broker_id, cleanly=False, process=2)
    await restart(env, 7, cleanly=False, process=2)
    assert state(env) == (NO_LEADER, (), (), (7,))
    await env.beat(8)
    assert state(env)[0] == NO_LEADER
    await env.beat(7)
    assert state(env) == (7, (7,), (), ())
    assert env.partition().leader_recovery_state == RECOVERING
    assert env.metrics.counters["unclean_elections"] == 1


async def test_unclean_election_clears_the_eligible_replicas() -> None:
    env = await three_brokers()
    await env.alter(7, 7)
    for broker_id in (8, 9, 7):
        await env.fail(broker_id)
    assert state(env) == (NO_LEADER, (), (7, 8, 9), (7,))
    await restart(env, 8, cleanly=False, process=2)
    await env.beat(8)
    assert state(env) == (NO_LEADER, (), (7, 9), (7,))
    await env.elect(ElectionType.UNCLEAN)
    assert state(env) == (8, (8,), (), ())


async def test_change_of_min_insync_replicas_clears_the_eligible_replicas() -> None:
    env = await three_brokers()
    await env.alter(7, 7)
    assert state(env)[2] == (8, 9)
    answer = await env.do(alter(TOPIC, "t", ConfigOperation.SET, "1"))
    assert answer.responses[0].error_code == ErrorCode.NONE
    await env.settle()
    assert state(env) == (7, (7,), (), ())


@pytest.mark.parametrize(
    ("broker", "operation", "error"),
    [
        ("7", ConfigOperation.SET, ErrorCode.INVALID_CONFIG),
        ("7", ConfigOperation.DELETE, ErrorCode.INVALID_CONFIG),
        ("", ConfigOperation.DELETE, ErrorCode.INVALID_CONFIG),
        ("", ConfigOperation.SET, ErrorCode.NONE),
    ],
)
async def test_min_insync_replicas_is_set_for_all_brokers_only(
    broker: str, operation: ConfigOperation, error: ErrorCode
) -> None:
    env = await three_brokers()
    answer = await env.do(alter(BROKER, broker, operation, "2"))
    assert answer.responses[0].error_code == error


def alter(
    kind: int, name: str, operation: ConfigOperation, value: str
) -> IncrementalAlterConfigsRequest:
    """One change of min.insync.replicas."""
    given = value if operation == ConfigOperation.SET else None
    change = AlterableConfig(
        name=MIN_INSYNC_REPLICAS, config_operation=operation.value, value=given
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=(change,))
    return IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)


async def test_broker_with_many_partitions_is_registered_after_the_last_partition_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unclean_shutdown, "MAX_RECORDS", 2)
    env = PartitionEnv()
    await env.begin(7, 8)
    await env.topic(*[(7, 8)] * 5)
    errors = []
    for _ in range(3):
        answer = await env.do(registration(7, 2, previous_broker_epoch=-1))
        await env.settle()
        errors.append(answer.error_code)
    assert errors == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert all(env.partition(each).isr == (8,) for each in range(5))


@pytest.mark.requirement("KV3-09")
def test_lowering_and_raising_the_feature_level_clears_the_eligible_replicas() -> None:
    """An unclean stop is noted only while the level is 1."""
    cluster, topic_id = ControlledCluster(), UUID(int=5)
    assert raised(cluster, 1).error_code == ErrorCode.NONE
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=(7, 9),
        isr=(7,),
        leader=7,
        leader_epoch=0,
        partition_epoch=0,
        eligible_leader_replicas=(9,),
    )
    cluster.replay([TopicRecord(name="t", topic_id=topic_id), partition])

    def eligible() -> tuple[int, ...]:
        found = cluster.image.topics.partition(topic_id, 0)
        assert found is not None
        return found.eligible_leader_replicas or ()

    assert raised(cluster, 1).error_code == ErrorCode.NONE
    assert eligible() == (9,), "the feature level has not changed"
    assert raised(cluster, 0).error_code == ErrorCode.NONE
    assert raised(cluster, 1).error_code == ErrorCode.NONE
    assert eligible() == ()


def level_request(level: int) -> UpdateFeaturesRequest:
    update = FeatureUpdate(
        feature=ELIGIBLE_LEADER_REPLICAS,
        max_version_level=level,
        upgrade_type=(UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE).value,
    )
    return UpdateFeaturesRequest(feature_updates=(update,), timeout_ms=1000)


def raised(cluster: ControlledCluster, level: int) -> UpdateFeaturesResponse:
    return cluster.ask(update_features, level_request(level), UpdateFeaturesResponse)


def test_feature_level_sets_min_insync_replicas_for_all_brokers() -> None:
    cluster = ControlledCluster()
    cluster.replay(
        [ConfigRecord(resource_type=BROKER, resource_name="3", name=MIN_INSYNC_REPLICAS, value="2")]
    )
    assert raised(cluster, 1).error_code == ErrorCode.NONE
    assert [type(each) for each in cluster.decided] == [
        ConfigRecord,
        ConfigRecord,
        FeatureLevelRecord,
    ]
    configs = cluster.image.configs
    assert configs.of(BROKER, "")[MIN_INSYNC_REPLICAS] == "1"
    assert MIN_INSYNC_REPLICAS not in configs.of(BROKER, "3")
    cluster.decided.clear()
    assert raised(cluster, 0).error_code == ErrorCode.NONE
    assert cluster.image.features.level(ELIGIBLE_LEADER_REPLICAS) == 0
    assert len(cluster.decided) == 1


def test_feature_level_requires_the_metadata_version_of_its_records() -> None:
    cluster = ControlledCluster(level=22)
    answer = raised(cluster, 1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "depends on metadata.version level 23" in (answer.error_message or "")
