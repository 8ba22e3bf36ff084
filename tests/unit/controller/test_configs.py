"""Configs of topics, brokers, groups and client metrics: what is written, what is refused."""

import time

import pytest

from quorum_node.controller.configs import alter_configs, incremental_alter_configs
from quorum_node.controller.decision import Decision
from quorum_node.controller.topic_config_types import TOPIC_CONFIGS
from quorum_node.controller.topic_settings import effective, layers_of, may_lose_data
from quorum_node.controller.topics import create_topics
from quorum_node.image.resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from quorum_node.protocol.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ReplacedConfig,
    ReplacedResource,
)
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import ConfigRecord
from quorum_node.schema.decoder import MAX_STRING_BYTES
from support.controlled_cluster import NODE_ID, ControlledCluster, assigned

SET, DELETE = ConfigOperation.SET, ConfigOperation.DELETE
APPEND, SUBTRACT = ConfigOperation.APPEND, ConfigOperation.SUBTRACT
Change = tuple[str, int, str | None]


@pytest.fixture
def cluster() -> ControlledCluster:
    """Broker 1 and topic t."""
    cluster = ControlledCluster([1])
    request = CreateTopicsRequest(topics=(assigned("t", (1,)),))
    cluster.ask(create_topics, request, CreateTopicsResponse)
    cluster.decided.clear()
    return cluster


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ),
    )


def alter(
    cluster: ControlledCluster, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[ErrorCode]:
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    answer = cluster.ask(incremental_alter_configs, request, IncrementalAlterConfigsResponse)
    return [ErrorCode(each.error_code) for each in answer.responses]


def test_config_values_are_set_and_deleted(cluster: ControlledCluster) -> None:
    assert alter(cluster, resource(TOPIC, "t", ("retention.ms", SET, "5"))) == [ErrorCode.NONE]
    assert dict(cluster.image.configs.of(TOPIC, "t")) == {"retention.ms": "5"}
    unchanged = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    assert alter(cluster, unchanged) == [ErrorCode.NONE]
    assert len(cluster.decided) == 1, "an unchanged value was written"
    assert alter(cluster, resource(TOPIC, "t", ("retention.ms", DELETE, None))) == [ErrorCode.NONE]
    assert dict(cluster.image.configs.of(TOPIC, "t")) == {}


def test_list_items_are_appended_to_the_default_and_subtracted(
    cluster: ControlledCluster,
) -> None:
    def policy() -> str | None:
        return cluster.image.configs.of(TOPIC, "t").get("cleanup.policy")

    alter(cluster, resource(TOPIC, "t", ("cleanup.policy", APPEND, "compact")))
    assert policy() == "delete,compact"
    alter(cluster, resource(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")))
    assert policy() == "compact"


def test_list_length_is_limited_to_strings_that_stock_nodes_read(
    cluster: ControlledCluster,
) -> None:
    def append(item: str) -> list[ErrorCode]:
        return alter(cluster, resource(BROKER, "", ("listeners", APPEND, item)))

    assert append("a" * 16_383) == append("b" * 16_383) == [ErrorCode.NONE]
    assert append("c") == [ErrorCode.INVALID_CONFIG]
    assert len(cluster.image.configs.of(BROKER, "")["listeners"]) == MAX_STRING_BYTES


REPLICAS = "leader.replication.throttled.replicas"
LONGEST = 32_767


def replicas(first: int, count: int) -> str:
    """So many items of seven bytes, of which one is the comma before the next."""
    return ",".join(f"{number:04}:1" for number in range(first, first + count))


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
def test_value_length_is_limited_to_the_longest_string(
    cluster: ControlledCluster, kind: int
) -> None:
    """Stock nodes can't read a record with a longer one, nor clients an answer with it."""
    name, key = ("t", REPLICAS) if kind == TOPIC else ("1", "ssl.cipher.suites")
    longest = replicas(0, LONGEST // 7)
    longest += "0" * (LONGEST - len(longest))
    assert alter(cluster, resource(kind, name, (key, SET, longest))) == [ErrorCode.NONE]
    before = len(cluster.decided)
    request = IncrementalAlterConfigsRequest(
        resources=(resource(kind, name, (key, APPEND, "1:1")),), validate_only=False
    )
    answer = cluster.ask(incremental_alter_configs, request, IncrementalAlterConfigsResponse)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    (found,) = answer.responses
    assert found.error_code == ErrorCode.INVALID_CONFIG
    assert found.error_message == f"{key}: the list would have more than 32767 bytes"
    assert cluster.image.configs.of(kind, name)[key] == longest
    assert len(cluster.decided) == before, "nothing is written"
    shorter = resource(kind, name, (key, SUBTRACT, "0000:1,0001:1"))
    assert alter(cluster, shorter) == [ErrorCode.NONE]
    assert cluster.image.configs.of(kind, name)[key] == longest[14:]
    assert alter(cluster, resource(kind, name, (key, APPEND, "1:1"))) == [ErrorCode.NONE]


def test_value_length_is_counted_in_bytes(cluster: ControlledCluster) -> None:
    key = "ssl.cipher.suites"
    half = "é" * (LONGEST // 2)
    assert alter(cluster, resource(BROKER, "1", (key, SET, half))) == [ErrorCode.NONE]
    assert alter(cluster, resource(BROKER, "1", (key, APPEND, "é"))) == [ErrorCode.INVALID_CONFIG]


def test_oversized_value_of_an_earlier_version_can_be_shortened(
    cluster: ControlledCluster,
) -> None:
    key, grown = "ssl.cipher.suites", replicas(0, 6_000)
    record = ConfigRecord(resource_type=BROKER, resource_name="1", name=key, value=grown)
    cluster.take(Decision((record,)))
    assert len(cluster.image.configs.of(BROKER, "1")[key]) > LONGEST
    one = resource(BROKER, "1", (key, SUBTRACT, "0000:1"))
    assert alter(cluster, one) == [ErrorCode.INVALID_CONFIG]
    many = resource(BROKER, "1", (key, SUBTRACT, replicas(0, 3_000)))
    assert alter(cluster, many) == [ErrorCode.NONE]
    assert cluster.image.configs.of(BROKER, "1")[key] == replicas(3_000, 3_000)


def test_items_that_are_there_several_times_go_as_often_as_they_are_given(
    cluster: ControlledCluster,
) -> None:
    key = "ssl.cipher.suites"
    for operation, value, after in (
        (SET, "a,b,a,c,a", "a,b,a,c,a"),
        (SUBTRACT, "a,d", "b,a,c,a"),
        (SUBTRACT, "a,a,a", "b,c"),
        (APPEND, "d,c,d,e", "b,c,d,e"),
    ):
        assert alter(cluster, resource(BROKER, "1", (key, operation, value))) == [ErrorCode.NONE]
        assert cluster.image.configs.of(BROKER, "1")[key] == after


def test_unchanged_broker_config_is_written_again(cluster: ControlledCluster) -> None:
    """Brokers then reread files that the config names."""
    again = resource(BROKER, "1", ("ssl.keystore.location", SET, "/x"))
    assert alter(cluster, again) == alter(cluster, again) == [ErrorCode.NONE]
    assert len(cluster.decided) == 2


BAD: list[tuple[str, int, str, Change, ErrorCode]] = [
    ("no topic", TOPIC, "u", ("retention.ms", SET, "5"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ("all topics", TOPIC, "", ("retention.ms", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("bad name", TOPIC, "a b", ("retention.ms", SET, "5"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("unknown config", TOPIC, "t", ("nope", SET, "5"), ErrorCode.INVALID_CONFIG),
    ("wrong value", TOPIC, "t", ("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
    ("no value", TOPIC, "t", ("retention.ms", SET, None), ErrorCode.INVALID_CONFIG),
    ("no list", TOPIC, "t", ("retention.ms", APPEND, "5"), ErrorCode.INVALID_CONFIG),
    ("conflict", TOPIC, "t", ("max.compaction.lag.ms", SET, "0"), ErrorCode.INVALID_CONFIG),
    ("no operation", TOPIC, "t", ("retention.ms", 9, "5"), ErrorCode.INVALID_REQUEST),
    ("no broker", BROKER, "9", ("x", SET, "5"), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ("no number", BROKER, "x", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("negative", BROKER, "-1", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("no integer", BROKER, "2147483648", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("empty config", BROKER, "1", ("", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("empty of a topic", TOPIC, "t", ("", SET, "5"), ErrorCode.INVALID_CONFIG),
    ("many digits", BROKER, "1" * 5000, ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("long value", TOPIC, "t", ("retention.ms", SET, "1" * 5000), ErrorCode.INVALID_CONFIG),
    (
        "of a group",
        GROUP,
        "g",
        ("share.renew.acknowledge.enable", SET, "5"),
        ErrorCode.INVALID_CONFIG,
    ),
    ("of metrics", CLIENT_METRICS, "m", ("nope", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("all groups", GROUP, "", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("logger", 8, "1", ("x", SET, "5"), ErrorCode.INVALID_REQUEST),
    ("no type", 7, "1", ("x", SET, "5"), ErrorCode.UNSUPPORTED_VERSION),
]


@pytest.mark.parametrize(
    ("kind", "name", "change", "code"), [pytest.param(*row[1:], id=row[0]) for row in BAD]
)
def test_invalid_config_change_is_rejected(
    cluster: ControlledCluster, kind: int, name: str, change: Change, code: ErrorCode
) -> None:
    before = cluster.image.configs.by_resource
    good = resource(BROKER, "", ("good", SET, "1"))
    assert alter(cluster, resource(kind, name, change), good, validate_only=True) == [code, 0]
    assert cluster.image.configs.by_resource == before
    assert alter(cluster, resource(kind, name, change), good) == [code, 0]
    assert len(cluster.decided) == 1


def test_resource_may_appear_once_in_a_request(cluster: ControlledCluster) -> None:
    twice = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    assert alter(cluster, twice, twice) == [ErrorCode.INVALID_REQUEST]
    assert cluster.decided == []


def test_legacy_alter_configs_replaces_all_values(cluster: ControlledCluster) -> None:
    changes = (("retention.ms", SET, "5"), ("segment.ms", SET, "7"))
    alter(cluster, resource(TOPIC, "t", *changes))
    request = AlterConfigsRequest(
        resources=(
            ReplacedResource(
                resource_type=TOPIC,
                resource_name="t",
                configs=(ReplacedConfig(name="segment.ms", value="8"),),
            ),
        ),
        validate_only=False,
    )
    answer = cluster.ask(alter_configs, request, AlterConfigsResponse)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert dict(cluster.image.configs.of(TOPIC, "t")) == {"segment.ms": "8"}


def test_groups_and_client_metrics_have_configs(cluster: ControlledCluster) -> None:
    metrics = resource(CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    group = resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    assert alter(cluster, metrics, group) == [ErrorCode.NONE] * 2


@pytest.mark.requirement("KV3-01")
def test_topic_config_overrides_node_config_and_broker_default(cluster: ControlledCluster) -> None:
    name = "unclean.leader.election.enable"
    assert not may_lose_data(cluster.view(), "t")
    alter(cluster, resource(BROKER, "", (name, SET, "true")))
    assert may_lose_data(cluster.view(), "t")
    alter(cluster, resource(BROKER, str(NODE_ID), (name, SET, "false")))
    assert not may_lose_data(cluster.view(), "t")
    alter(cluster, resource(TOPIC, "t", (name, SET, "true")))
    assert may_lose_data(cluster.view(), "t")


def test_broker_hours_are_converted_to_topic_milliseconds(cluster: ControlledCluster) -> None:
    alter(cluster, resource(BROKER, "", ("log.retention.hours", SET, "2")))
    assert effective(layers_of(cluster.view()), "retention.ms", {}) == (
        "retention.ms",
        "7200000",
        3,
    )


def test_every_default_is_a_valid_value() -> None:
    for name, config in TOPIC_CONFIGS.items():
        if config.default is not None:
            assert config.fault(config.default) is None, name


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        ("", True),
        (" ", True),
        ("compact", True),
        ("delete, compact", True),
        (",", False),
        ("delete,", False),
        ("delete,delete", False),
        ("burn", False),
    ],
)
def test_cleanup_policy_may_be_empty(
    cluster: ControlledCluster, value: str, is_valid: bool
) -> None:
    """Then nothing is deleted; the documentation of Kafka 4.3: "An empty list means infinite retention"."""
    expected = ErrorCode.NONE if is_valid else ErrorCode.INVALID_CONFIG
    for asked in (
        resource(TOPIC, "t", ("cleanup.policy", SET, value)),
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
    ):
        assert alter(cluster, asked) == [expected if asked.configs[0].value == value else 0]


def test_the_last_item_of_cleanup_policy_can_be_subtracted(cluster: ControlledCluster) -> None:
    removed = resource(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
    assert alter(cluster, removed) == [ErrorCode.NONE]
    assert cluster.image.configs.of(TOPIC, "t")["cleanup.policy"] == ""


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("segment.bytes", "14000", "it has to be at least 1048576"),
        ("min.cleanable.dirty.ratio", "1.5", "it has to be at most 1"),
        ("min.cleanable.dirty.ratio", "0.\u0665", "it has to be a number"),
        ("min.cleanable.dirty.ratio", "0_0.5", "it has to be a number"),
        ("retention.ms", "\u00a05", "it has to be an integer of type long"),
        ("retention.ms", "0" * 5000, "it has to be an integer of type long"),
    ],
)
def test_limit_is_reported_with_all_digits(name: str, value: str, fault: str) -> None:
    assert TOPIC_CONFIGS[name].fault(value) == fault


def test_longest_invalid_number_is_refused_at_once() -> None:
    """A value that is read in quadratic time would hold the controller up for longer than an election takes."""
    value = "1" * (MAX_STRING_BYTES - 1) + "x"
    began = time.process_time()
    assert TOPIC_CONFIGS["min.cleanable.dirty.ratio"].fault(value) == "it has to be a number"
    assert time.process_time() - began < 1
