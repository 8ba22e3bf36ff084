"""DescribeConfigs: the effective value, its source, and its synonyms."""

from typing import Any

import pytest

from quorum_node.controller.authorization import AclOperation, Caller
from quorum_node.controller.config_descriptions import Asked, describe
from quorum_node.controller.config_rights import config_refused
from quorum_node.controller.problem import Problem
from quorum_node.controller.topic_config_types import BROKER_CONFIGS, TOPIC_CONFIGS
from quorum_node.image.resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribedConfig
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata import ConfigRecord, TopicRecord
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.rights import request_authorizer as rights_module
from support.controlled_cluster import NODE_ID, ControlledCluster

RETENTION = "retention.ms"


def cluster_with_topic() -> ControlledCluster:
    cluster = ControlledCluster()
    cluster.replay([TopicRecord(name="t", topic_id=cluster.view().fresh_uuid())])
    return cluster


def set_config(cluster: ControlledCluster, kind: int, resource: str, name: str, value: str) -> None:
    record = ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
    cluster.replay([record])


def described(
    cluster: ControlledCluster, kind: int, name: str, *keys: str, **static: str
) -> dict[str, DescribedConfig]:
    settings = {key.replace("_", "."): value for key, value in static.items()}
    found = describe(cluster.image, NODE_ID, settings, Asked(kind, name, keys, synonyms=True))
    assert not isinstance(found, Problem), found
    return {each.name: each for each in found}


def synonyms_of(config: DescribedConfig) -> list[tuple[str, str | None, int]]:
    return [(each.name, each.value, each.source) for each in config.synonyms]


def test_every_topic_config_is_described_with_default_and_type() -> None:
    cluster = cluster_with_topic()
    found = described(cluster, TOPIC, "t")
    assert set(found) == set(TOPIC_CONFIGS) - {"internal.segment.bytes"}
    segment = found["segment.bytes"]
    assert (segment.value, segment.config_source, segment.config_type) == ("1073741824", 5, 3)
    assert synonyms_of(segment) == [("log.segment.bytes", "1073741824", 5)]
    # The default is that of log.retention.hours, and stock Kafka shows no synonym then.
    assert (found[RETENTION].value, found[RETENTION].config_source) == ("604800000", 5)
    assert synonyms_of(found[RETENTION]) == []


def test_value_source_is_topic_or_node_or_all_brokers_or_static_or_default() -> None:
    cluster = cluster_with_topic()

    def source(**static: str) -> tuple[str | None, int]:
        found = described(cluster, TOPIC, "t", RETENTION, **static)[RETENTION]
        return found.value, found.config_source

    assert source(log_retention_ms="5") == ("5", 4)
    set_config(cluster, BROKER, "", "log.retention.ms", "4")
    assert source(log_retention_ms="5") == ("4", 3)
    set_config(cluster, BROKER, str(NODE_ID), "log.retention.ms", "3")
    assert source(log_retention_ms="5") == ("3", 2)
    set_config(cluster, TOPIC, "t", RETENTION, " 2")
    assert source(log_retention_ms="5") == ("2", 1)
    assert synonyms_of(described(cluster, TOPIC, "t", log_retention_ms="5")[RETENTION]) == [
        (RETENTION, "2", 1),
        ("log.retention.ms", "3", 2),
        ("log.retention.ms", "4", 3),
        ("log.retention.ms", "5", 4),
        ("log.retention.hours", "168", 5),
    ]


def test_broker_unit_is_converted_to_the_topic_unit() -> None:
    cluster = cluster_with_topic()
    found = described(cluster, TOPIC, "t", log_retention_hours="2")[RETENTION]
    assert found.value == "7200000"
    set_config(cluster, BROKER, "", "log.retention.hours", "1")
    assert described(cluster, TOPIC, "t")[RETENTION].value == "604800000", "not while brokers run"
    assert described(cluster, BROKER, "") == {}
    set_config(cluster, BROKER, "", "log.retention.ms", "soon")
    assert described(cluster, TOPIC, "t")[RETENTION].value == "soon", "the value was not checked"
    assert set(BROKER_CONFIGS) >= {"log.retention.minutes", "log.roll.hours", "message.max.bytes"}


def test_node_describes_its_own_configs_and_the_broker_defaults() -> None:
    cluster = ControlledCluster()
    set_config(cluster, BROKER, "", "log.retention.ms", "4")
    set_config(cluster, BROKER, "", "ssl.key.password", "secret")
    set_config(cluster, BROKER, str(NODE_ID), "log.retention.ms", "3")
    for_all = described(cluster, BROKER, "", log_retention_ms="5")
    assert synonyms_of(for_all["log.retention.ms"]) == [("log.retention.ms", "4", 3)]
    own = described(cluster, BROKER, str(NODE_ID), log_retention_ms="5")
    assert (own["log.retention.ms"].value, own["log.retention.ms"].config_source) == ("3", 2)
    assert [source for _, _, source in synonyms_of(own["log.retention.ms"])] == [2, 3, 4]
    secret = own["ssl.key.password"]
    assert (secret.is_sensitive, secret.value) == (True, None)
    assert synonyms_of(secret) == [("ssl.key.password", None, 3)]


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("delegation.token.secret.key", True),
        ("delegation.token.master.key", True),
        ("password.encoder.old.secret", True),
        ("listener.name.x.scram-sha-512.sasl.jaas.config", True),
        ("rsm.config.storage.aws.secret.access.key", True),
        ("plugin.db_password", True),
        ("plugin.credentials.json", True),
        ("password.encoder.iterations", False),
        ("delegation.token.max.lifetime.ms", False),
        ("ssl.keystore.location", False),
        ("log.cleaner.threads", False),
        ("monkey", False),
    ],
)
def test_value_of_a_credential_is_hidden(name: str, is_hidden: bool) -> None:
    cluster = ControlledCluster()
    set_config(cluster, BROKER, "", name, "v")
    found = described(cluster, BROKER, "")[name]
    assert (found.is_sensitive, found.value) == (is_hidden, None if is_hidden else "v")


def test_groups_and_subscriptions_describe_their_set_configs() -> None:
    cluster = ControlledCluster()
    for kind, source in ((CLIENT_METRICS, 7), (GROUP, 8)):
        set_config(cluster, kind, "g", "interval.ms", "100")
        found = described(cluster, kind, "g")["interval.ms"]
        assert (found.value, found.config_source) == ("100", source)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (77, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_unknown_resource_is_rejected(kind: int, name: str, code: ErrorCode) -> None:
    found = describe(ControlledCluster().image, NODE_ID, {}, Asked(kind, name))
    assert isinstance(found, Problem)
    assert found.code == code


def test_caller_without_rights_gets_no_configs() -> None:
    image = ControlledCluster().image
    authorizer = AuthorizerSettings(enabled=True, super_users=frozenset({"User:admin"}))

    def refused(user: str, *requested: Any) -> ErrorCode | None:
        caller = Caller(user, "", "CONTROLLER")
        request_authorizer = rights_module.RequestAuthorizer(
            rights_module.AccessSettings(authorizer), image.acls
        )
        rights = request_authorizer.request(caller, DescribeConfigsRequest(resources=()))
        assert isinstance(rights, rights_module.Asked)
        problem = config_refused(rights, caller, AclOperation.DESCRIBE_CONFIGS, *requested)
        return problem.code if problem is not None else None

    assert refused("User:eve", TOPIC, "t") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert refused("User:eve", GROUP, "g") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert refused("User:eve", BROKER, "") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert refused("User:admin", BROKER, "") is None
