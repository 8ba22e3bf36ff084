"""What a broker is started with: how it reaches controllers and other brokers, and what the cleaner is told."""

from pathlib import Path

import pytest

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.configuration.properties import ConfigError

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


def test_the_listener_between_brokers_comes_first_and_controllers_have_their_own_settings() -> None:
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
    ],
)
def test_what_can_not_work_is_refused(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        checked(**changes)
    assert words in str(refused.value)


def test_the_cleaners_keys_and_the_lag_in_bytes() -> None:
    broker = checked(log_cleaner_enable="false", quorum_replica_lag_max_bytes="1000").broker
    assert broker is not None
    assert broker.static_configs == {"log.cleaner.enable": "false"}
    assert broker.lag_max_bytes == 1000
    nothing = checked().broker
    assert nothing is not None
    assert (nothing.static_configs, nothing.lag_max_bytes) == ({}, None)
    assert nothing.log_dir == Path("/var/lib/broker/logs")
