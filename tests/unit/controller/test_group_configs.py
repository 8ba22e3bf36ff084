"""Configs of groups: which values are accepted, alone and together, under which limits of the node."""

import pytest

from quorum_node.controller.configs import incremental_alter_configs
from quorum_node.controller.group_config_types import (
    GROUP_CONFIGS,
    NODE_NUMBERS,
    group_configs_fault,
)
from quorum_node.image.resource_types import BROKER, GROUP
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import ConfigRecord
from support.controlled_cluster import ControlledCluster

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
RESET = "share.auto.offset.reset"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("consumer.assignment.interval.ms", ("0", "15000"), ("-1", "15001")),
        ("consumer.heartbeat.interval.ms", ("5000", "15000"), ("4999", "15001")),
        ("consumer.session.timeout.ms", ("45000", " 60000 "), ("44999", "60001", "x", "", "1.5")),
        ("share.assignment.interval.ms", ("0", "15000"), ("-1", "15001")),
        ("share.auto.offset.reset", ("earliest", " latest "), ("", "none", "Latest")),
        ("share.delivery.count.limit", ("2", "10"), ("1", "11")),
        ("share.heartbeat.interval.ms", ("5000", "15000"), ("4999", "15001")),
        ("share.isolation.level", ("read_committed", "read_uncommitted"), ("", "READ_COMMITTED")),
        ("share.partition.max.record.locks", ("100", "4000"), ("99", "4001")),
        ("share.record.lock.duration.ms", ("15000", "60000"), ("14999", "60001")),
        ("share.renew.acknowledge.enable", ("true", "FALSE"), ("", "yes")),
        ("share.session.timeout.ms", ("45000", "60000"), ("44999", "60001")),
        ("streams.assignment.interval.ms", ("0", "15000"), ("-1", "15001")),
        ("streams.heartbeat.interval.ms", ("5000", "15000"), ("4999", "15001")),
        ("streams.initial.rebalance.delay.ms", ("0", "2147483647"), ("-1", "2147483648")),
        ("streams.num.standby.replicas", ("0", "2"), ("-1", "3")),
        ("streams.session.timeout.ms", ("45000", "60000"), ("44999", "60001")),
    ],
)
def test_values_of_a_group_have_limits(
    name: str, valid: tuple[str, ...], invalid: tuple[str, ...]
) -> None:
    for value in valid:
        assert group_configs_fault({name: value}, {}) is None, value
    for value in invalid:
        fault = group_configs_fault({name: value}, {})
        assert fault is not None, value
        assert name in fault


def test_every_config_of_a_group_has_a_valid_default() -> None:
    defaults = {name: config.default for name, config in GROUP_CONFIGS.items()}
    assert len(defaults) == 17
    assert None not in defaults.values()
    given = {name: value for name, value in defaults.items() if value is not None}
    assert group_configs_fault(given, {}) is None
    assert all(each.least <= each.default <= each.most for each in NODE_NUMBERS.values())


def test_unknown_config_of_a_group_is_named() -> None:
    assert group_configs_fault({"nope": "1"}, {}) == "a group has no config nope"


def test_limits_are_properties_of_the_node() -> None:
    longer = {"group.consumer.max.session.timeout.ms": "100000"}
    assert group_configs_fault({SESSION: "100000"}, longer) is None
    assert group_configs_fault({SESSION: "100001"}, longer) == (
        f"{SESSION}=100001 is more than group.consumer.max.session.timeout.ms=100000"
    )
    shorter = {"group.share.min.delivery.count.limit": "4"}
    assert group_configs_fault({"share.delivery.count.limit": "3"}, shorter) == (
        "share.delivery.count.limit=3 is less than group.share.min.delivery.count.limit=4"
    )
    more = {"group.streams.max.standby.replicas": "3"}
    assert group_configs_fault({"streams.num.standby.replicas": "3"}, more) is None


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_session_is_longer_than_the_interval_of_heartbeats(kind: str) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    wide = {f"group.{kind}.max.heartbeat.interval.ms": "60000"}
    assert group_configs_fault({session: "50000", heartbeat: "49999"}, wide) is None
    equal = f"{session}=50000 is not more than {heartbeat}=50000"
    assert group_configs_fault({session: "50000", heartbeat: "50000"}, wide) == equal
    # The default of the node counts if the group has no value of its own.
    assert group_configs_fault({heartbeat: "45000"}, wide) is not None
    later = wide | {f"group.{kind}.session.timeout.ms": "45001"}
    assert group_configs_fault({heartbeat: "45000"}, later) is None


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("PT1H", True),
        ("P1DT2H3M4.5S", True),
        ("pt0s", True),
        ("-PT-1H", True),
        ("PT61M", True),
        ("PT1H-60M", True),
        ("PT1H-61M", False),
        ("-PT1H", False),
        ("PT-0.5S", False),
        ("", False),
        ("1", False),
    ],
)
def test_group_can_begin_a_duration_ago(text: str, is_valid: bool) -> None:
    assert (group_configs_fault({RESET: f"by_duration:{text}"}, {}) is None) is is_valid
    assert group_configs_fault({RESET: text}, {}) is not None


def altered(cluster: ControlledCluster, name: str, operation: int, value: str | None) -> ErrorCode:
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=GROUP, resource_name="g", configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    answer = cluster.ask(incremental_alter_configs, request, IncrementalAlterConfigsResponse)
    return ErrorCode(answer.responses[0].error_code)


def test_configs_of_a_group_are_checked_together() -> None:
    cluster = ControlledCluster([1])
    cluster.decided.clear()
    cluster.replay([ConfigRecord(resource_type=GROUP, resource_name="g", name="old", value="1")])
    assert altered(cluster, SESSION, ConfigOperation.SET, "50000") is ErrorCode.INVALID_CONFIG
    assert altered(cluster, "old", ConfigOperation.DELETE, None) is ErrorCode.NONE
    assert altered(cluster, SESSION, ConfigOperation.SET, "50000") is ErrorCode.NONE
    assert altered(cluster, SESSION, ConfigOperation.SET, "1") is ErrorCode.INVALID_CONFIG
    assert altered(cluster, "", ConfigOperation.SET, "1") is ErrorCode.INVALID_CONFIG
    assert dict(cluster.image.configs.of(GROUP, "g")) == {SESSION: "50000"}


def test_change_of_a_group_is_checked_by_the_limits_of_the_node() -> None:
    cluster = ControlledCluster([1])
    assert altered(cluster, SESSION, ConfigOperation.SET, "70000") is ErrorCode.INVALID_CONFIG
    longer = {"group.consumer.max.session.timeout.ms": "70000"}
    cluster.replay(
        ConfigRecord(resource_type=BROKER, resource_name="", name=name, value=value)
        for name, value in longer.items()
    )
    assert altered(cluster, SESSION, ConfigOperation.SET, "70000") is ErrorCode.INVALID_CONFIG
    cluster.with_settings(static_configs=longer)
    assert altered(cluster, SESSION, ConfigOperation.SET, "70000") is ErrorCode.NONE
