"""The configuration of a broker: connections to controllers and other brokers, and the settings of the cleaner."""

from pathlib import Path

import pytest

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import ConfigError
from quorum_node.server.starting.replica_building import own_endpoints

BROKER = {
    "process.roles": "broker",
    "unstable.broker.role.enable": "true",
    "node.id": "101",
    "listeners": "CLIENTS://b:9093,BROKERS://b:9094",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "c:9093",
    "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SASL_SSL,BROKERS:SSL",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.location": "/etc/broker/keystore.pem",
    "ssl.truststore.location": "/etc/broker/ca.crt",
    "metadata.log.dir": "/var/lib/broker/metadata",
    "log.dirs": "/var/lib/broker/logs",
    "admin.listener": "http://127.0.0.1:8081",
}


def checked(**changes: str) -> NodeConfig:
    """With other values; dots are written as underscores."""
    return check_config(
        {**BROKER, **{key.replace("_", "."): value for key, value in changes.items()}}
    )


def test_inter_broker_listener_is_first_and_controller_listeners_have_their_own_settings() -> None:
    config = checked()
    assert [each.name for each in config.listeners] == ["BROKERS", "CLIENTS"]
    assert config.broker is not None
    assert config.broker.controllers.name == config.quorum_listener == "CONTROLLER"
    assert config.broker.controllers.ssl is not None
    assert config.has_tls
    plain = checked(
        listeners="PLAINTEXT://b:9092",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="",
    )
    assert not plain.has_tls


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"inter_broker_listener_name": "OTHERS"}, "OTHERS is not in listeners"),
        ({"inter_broker_listener_name": "CLIENTS"}, "can't use SASL"),
        (
            {"listener_security_protocol_map": "CLIENTS:SSL,BROKERS:SSL"},
            "no entry for listener CONTROLLER of the controllers",
        ),
        ({"log_cleaner_backoff_ms": "soon"}, "log.cleaner.backoff.ms=soon"),
        ({"producer_id_expiration_ms": "0"}, "producer.id.expiration.ms=0"),
        (
            {"cordoned_log_dirs": "/var/lib/broker/other"},
            "/var/lib/broker/other is not in log.dirs",
        ),
    ],
)
def test_invalid_broker_configuration_is_rejected(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked(**changes)
    assert words in str(refused.value)


BOTH = {
    **BROKER,
    "process.roles": "broker,controller",
    "listeners": "CONTROLLER://b:9095,CLIENTS://b:9093,BROKERS://b:9094",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "formation.founder.id": "101",
    "formation.founder.uuid": "Zm91bmRlci1vZi1maXJzdA",
}


SECURED = {
    "ssl.keystore.location": "/etc/broker/keystore.pem",
    "ssl.truststore.location": "/etc/broker/ca.crt",
    "ssl.client.auth": "required",
}


@pytest.mark.requirement("K631-01")
@pytest.mark.parametrize("roles", ["broker,controller", "controller,broker"])
def test_combined_process_has_listeners_of_both_roles(roles: str) -> None:
    config = check_config({**BOTH, "process.roles": roles})
    assert [each.name for each in config.controller_listeners] == ["CONTROLLER"]
    assert [each.name for each in config.broker_listeners] == ["BROKERS", "CLIENTS"]
    assert (config.dialled.name, config.between_brokers.name) == ("CONTROLLER", "BROKERS")
    assert config.is_member
    assert [each.name for each in own_endpoints(config)] == ["CONTROLLER", "ADMIN"]
    assert config.formation is not None
    assert not checked().is_member
    assert own_endpoints(checked()) == ()


@pytest.mark.requirement("K631-01")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"listeners": "CLIENTS://b:9093,BROKERS://b:9094"}, "listener CONTROLLER is missing"),
        ({"listeners": "CONTROLLER://b:9095"}, "the broker has no listener"),
        ({"unstable.broker.role.enable": "false"}, "in development"),
        ({"log.dirs": "/var/lib/broker/metadata/logs"}, "must be separate"),
        ({"inter.broker.listener.name": "CONTROLLER"}, "CONTROLLER is not in listeners"),
        (
            {
                **SECURED,
                "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SSL,BROKERS:PLAINTEXT",
            },
            "need the same protocol: they use SSL and PLAINTEXT",
        ),
        (
            {
                **SECURED,
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,CLIENTS:SSL,BROKERS:SSL",
            },
            "need the same protocol: they use PLAINTEXT and SSL",
        ),
        (
            {
                **SECURED,
                "listener.security.protocol.map": "CONTROLLER:SSL,CLIENTS:SASL_SSL,BROKERS:SSL",
                "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            },
            "supports PLAINTEXT and SSL only yet, and listener CLIENTS uses SASL_SSL",
        ),
        ({"process.roles": "broker,broker"}, "broker,controller"),
    ],
)
def test_invalid_configuration_of_a_combined_process_is_rejected(
    changes: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_config({**BOTH, **changes})
    assert words in str(refused.value)


def test_log_cleaner_properties_and_the_isr_lag_limit_in_bytes_are_parsed() -> None:
    broker = checked(log_cleaner_enable="false", quorum_replica_lag_max_bytes="1000").broker
    assert broker is not None
    assert broker.static_configs == {"log.cleaner.enable": "false"}
    assert broker.lag_max_bytes == 1000
    nothing = checked().broker
    assert nothing is not None
    assert (nothing.static_configs, nothing.lag_max_bytes) == ({}, None)
    assert nothing.producer_check_ms == 600_000
    changed = checked(
        producer_id_expiration_ms="1000", producer_id_expiration_check_interval_ms="7"
    ).broker
    assert changed is not None
    assert changed.static_configs == {"producer.id.expiration.ms": "1000"}
    assert changed.producer_check_ms == 7
    assert nothing.log_dirs == (Path("/var/lib/broker/logs"),)
