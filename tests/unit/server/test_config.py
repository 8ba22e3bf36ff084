"""Every configuration value is checked at start, and the message names key and bad value."""

from pathlib import Path

import pytest

from quorum_node.configuration.node_config import check_config
from quorum_node.configuration.properties import ConfigError, read_pairs
from quorum_node.host_port import HostPort
from support.shortest_timeouts import SHORTEST_MS, as_properties

FOUNDER_UUID = "JRsUV5unQMC2Yad2ZMQ9AA"
GOOD = {
    "node.id": "1",
    "advertised.listeners": "CONTROLLER://node-1.local:9093",
    "admin.advertised.listener": "http://node-1.local:8080",
    "metadata.log.dir": "/data",
    "controller.quorum.bootstrap.servers": "node-1.local:9093,node-2.local:9093",
}


@pytest.mark.requirement("K595-01")
def test_defaults_are_those_of_kafka() -> None:
    config = check_config(dict(GOOD))
    assert config.bootstrap_servers == (
        HostPort("node-1.local", 9093),
        HostPort("node-2.local", 9093),
    )
    assert config.timeouts.election_timeout_ms == 1000
    assert config.timeouts.fetch_timeout_ms == 2000
    assert config.timeouts.election_backoff_max_ms == 1000
    assert config.dialled.address.port == 9093
    assert config.formation is None


def test_topic_defaults_use_the_property_names_of_brokers() -> None:
    given = {"log.retention.hours": "48", "min.insync.replicas": "2"}
    assert check_config({**GOOD, **given}).controller.settings.static_configs == given


def test_limits_of_group_configs_use_the_property_names_of_brokers() -> None:
    given = {
        "group.consumer.max.session.timeout.ms": "90000",
        "group.share.delivery.count.limit": "7",
    }
    assert check_config({**GOOD, **given}).controller.settings.static_configs == given


def test_limits_of_group_configs_include_the_defaults() -> None:
    with pytest.raises(ConfigError, match=r"consumer\.session\.timeout\.ms=45000 is less than"):
        check_config({**GOOD, "group.consumer.min.session.timeout.ms": "45001"})
    higher = {"min.session.timeout.ms": "45001", "session.timeout.ms": "45001"}
    check_config({**GOOD, **{f"group.consumer.{name}": each for name, each in higher.items()}})


def quorum_keys(**given: int) -> dict[str, str]:
    return {f"controller.quorum.{key.replace('_', '.')}": str(v) for key, v in given.items()}


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize(
    ("given", "key", "rule"),
    [
        ({"fetch_timeout_ms": 400}, "fetch.timeout.ms=400", "at least 600"),
        ({"fetch_timeout_ms": 599}, "fetch.timeout.ms=599", "at least 600"),
        ({"request_timeout_ms": 1}, "request.timeout.ms=1", "at least 600"),
        ({"request_timeout_ms": 500}, "request.timeout.ms=500", "at least 600"),
        ({"election_timeout_ms": 1}, "election.timeout.ms=1", "at least 50"),
        ({"election_backoff_max_ms": 1}, "election.backoff.max.ms=1", "at least 10"),
        (
            {"retry_backoff_ms": 1500, "retry_backoff_max_ms": 3000},
            "retry.backoff.ms=1500",
            "half of controller.quorum.fetch.timeout.ms=2000",
        ),
        (
            {"retry_backoff_ms": 301, "fetch_timeout_ms": 600},
            "retry.backoff.ms=301",
            "half of controller.quorum.fetch.timeout.ms=600",
        ),
        (
            {"retry_backoff_ms": 50, "retry_backoff_max_ms": 40},
            "retry.backoff.ms=50",
            "exceeds controller.quorum.retry.backoff.max.ms=40",
        ),
    ],
)
def test_inconsistent_timeouts_are_rejected_with_the_rule(
    given: dict[str, int], key: str, rule: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({**GOOD, **quorum_keys(**given)})
    assert f"controller.quorum.{key}" in str(caught.value)
    assert rule in str(caught.value)


@pytest.mark.requirement("K595-01")
def test_shortest_allowed_timeouts_are_accepted() -> None:
    timeouts = check_config({**GOOD, **as_properties(SHORTEST_MS)}).timeouts
    assert {name: getattr(timeouts, name) for name in SHORTEST_MS} == SHORTEST_MS


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize("field", SHORTEST_MS)
def test_shorter_timeouts_are_rejected(field: str) -> None:
    shorter = {**SHORTEST_MS, field: SHORTEST_MS[field] - 1}
    with pytest.raises(ConfigError, match=field.replace("_", "\\.")):
        check_config({**GOOD, **as_properties(shorter)})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("max.connections", "3", "from 16"),
        ("max.connections.per.ip", "none", "not a whole number"),
        ("listener.name.admin.max.connections.per.ip", "0", "from 1"),
        ("max.connections.per.ip.overrides", "host:7", "IP-ADDRESS:COUNT"),
        ("max.connections.per.ip.overrides", "10.0.0.1:many", "number of connections"),
        ("max.connections.per.ip.overrides", "10.0.0.1:\u00b2", "number of connections"),
        ("max.connection.creation.rate", "0", "from 1"),
        ("connections.max.idle.ms", "1", "from 1000"),
        ("queued.max.request.bytes", "1048576", "socket.request.max.bytes=8388608"),
        ("listener.name.other.max.connections", "20", "no such key"),
    ],
)
def test_limits_are_validated(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({**GOOD, key: value})
    assert key in str(caught.value)
    assert why in str(caught.value)


def test_limits_apply_to_all_listeners_or_to_one() -> None:
    given = {
        "max.connections": "500",
        "listener.name.admin.max.connections": "50",
        "max.connections.per.ip.overrides": "10.0.0.1:5, [fd00::1]:6",
        "listener.name.controller.connections.max.idle.ms": "5000",
    }
    config = check_config({**GOOD, **given})
    assert (config.dialled.limits.max_connections, config.admin.limits.max_connections) == (500, 50)
    assert config.dialled.limits.allowed_from("10.0.0.1") == 5
    assert config.dialled.limits.allowed_from("fd00::1") == 6
    assert config.dialled.limits.allowed_from("10.0.0.2") == config.dialled.limits.max_per_address
    assert (config.dialled.limits.max_idle_ms, config.admin.limits.max_idle_ms) == (5000, 600_000)


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("node.id", "one", "not a whole number"),
        ("node.id", "-1", "must be from 0"),
        ("node.id", "", "not set"),
        ("controller.quorum.bootstrap.servers", "node-1.local", "not host:port"),
        ("controller.quorum.bootstrap.servers", "a:1,,b:2", "empty"),
        ("controller.quorum.bootstrap.servers", "a:99999", "not a port"),
        ("controller.quorum.bootstrap.servers", "a:\u00b2", "not a port"),
        ("admin.listener", f"http://0.0.0.0:{'9' * 5000}", "not a port"),
        ("controller.quorum.bootstrap.servers", "", "neither"),
        ("controller.quorum.fetch.timeout.ms", "2s", "not a whole number"),
        ("controller.quorum.fetch.timeout.ms", "0", "must be from 1"),
        ("controller.quorum.election.timeout.ms", "1.5", "not a whole number"),
        ("controller.quorum.election.backoff.max.ms", "-5", "must be from 1"),
        ("controller.quorum.request.timeout.ms", "99999999999", "must be from 1"),
        ("controller.quorum.retry.backoff.ms", "x", "not a whole number"),
        ("controller.quorum.retry.backoff.ms", "5000", "exceeds"),
        ("controller.quorum.retry.backoff.max.ms", "x", "not a whole number"),
        ("listeners", "PLAINTEXT://0.0.0.0:9093", "must be CONTROLLER"),
        ("listeners", "CONTROLLER:9093", "must be CONTROLLER://host:port"),
        (
            "advertised.listeners",
            "CONTROLLER://0.0.0.0:9093",
            "not an address that others can reach",
        ),
        ("advertised.listeners", "CONTROLLER://bad host:9093", "not a host"),
        ("admin.listener", "ftp://0.0.0.0:8080", "must be http or https"),
        ("health.listener", "https://0.0.0.0:8080", "must be http"),
        ("quorum.handshakes.max", "0", "from 1"),
        ("quorum.files.poll.ms", "1", "from 100"),
        ("quorum.role.mapping.rules", "CN=x", "neither DEFAULT nor RULE"),
        ("admin.membership.on.controller.listener", "yes", "true, false"),
        ("log.retention.hours", "two", "integer"),
        ("log.segment.bytes", "1", "at least"),
        ("group.share.delivery.count.limit", "11", "must be from 2 to 10"),
        ("log.cleanup.policy", "burn", "its items have to be among"),
        ("metadata.log.dir", "data", "absolute"),
        ("metadata.log.dir", "/a\0b", "NUL"),
        ("formation.founder.uuid", FOUNDER_UUID, "formation.founder.id"),
        ("formation.initial.voters", "3", "needs formation.founder.id"),
        ("metadata.log.reserve.bytes", "64M", "not a whole number"),
        ("quorum.partitions", "0", "must be from 1"),
        ("quorum.partitions", "17", "to 16"),
        ("cluster.id", "two words", "without blanks"),
        ("log.level", "loud", "one of"),
        ("controller.quorum.fetch.timeout", "1", "did you mean controller.quorum.fetch.timeout.ms"),
    ],
)
def test_invalid_value_is_named(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_config({**GOOD, key: value})
    message = str(raised.value)
    assert why in message
    assert key in message
    # The value of a key that is none may be a secret.
    assert (value in message) == ("no such key" not in message)


@pytest.mark.requirement("K631-01")
@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("process.roles", "broker", "in development"),
        ("process.roles", "broker,controller", "in development"),
        ("process.roles", "voter", "write controller"),
        ("controller.listener.names", "PLAINTEXT", "must start with CONTROLLER"),
        ("controller.listener.names", "CONTROLLER,SSL", "SSL is not in listeners"),
        ("listeners", "PLAINTEXT://0.0.0.0:9092", "must be CONTROLLER"),
        ("listeners", "CONTROLLER://0.0.0.0:9093,PLAINTEXT://0.0.0.0:9092", "PLAINTEXT is not in"),
    ],
)
def test_controller_role_and_its_listener_are_required(key: str, value: str, why: str) -> None:
    settings = {**GOOD, "process.roles": "controller", "controller.listener.names": "CONTROLLER"}
    check_config(dict(settings))
    with pytest.raises(ConfigError, match=why) as raised:
        check_config({**settings, key: value})
    assert f"{key}={value}" in str(raised.value)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("OTHER:PLAINTEXT", "has no entry for listener CONTROLLER"),
        ("CONTROLLER", "'CONTROLLER' is not LISTENER:PROTOCOL"),
        ("CONTROLLER:PLAIN", "'PLAIN' is none of PLAINTEXT"),
    ],
)
def test_listener_protocol_is_set_by_the_kafka_protocol_map(value: str, why: str) -> None:
    key = "listener.security.protocol.map"
    settings = check_config({**GOOD, key: "CONTROLLER:PLAINTEXT,SSL:SSL"})
    assert settings == check_config(dict(GOOD))
    with pytest.raises(ConfigError) as raised:
        check_config({**GOOD, key: value})
    assert f"{key}={value}: " in str(raised.value)
    assert why in str(raised.value)


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("1@a:9093,2@b", "'2@b' is not id@host:port"),
        ("x@a:9093", "is not id@host:port"),
        ("1@a:9093,1@b:9093", "an id is listed twice"),
    ],
)
def test_voters_are_parsed_as_id_at_host_and_port(value: str, why: str) -> None:
    pairs = {**GOOD, "controller.quorum.voters": value}
    del pairs["controller.quorum.bootstrap.servers"]
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters=") as raised:
        check_config(pairs)
    assert why in str(raised.value)
    assert value in str(raised.value)


STATIC = {**GOOD, "controller.quorum.voters": "1@node-1.local:9093,2@node-2.local:9093"}
del STATIC["controller.quorum.bootstrap.servers"]


@pytest.mark.requirement("K853-03")
def test_static_voters_or_bootstrap_servers_are_accepted() -> None:
    config = check_config(dict(STATIC))
    assert [str(voter) for voter in config.static_voters] == [
        "1@node-1.local:9093",
        "2@node-2.local:9093",
    ]
    assert config.bootstrap_servers == (
        HostPort("node-1.local", 9093),
        HostPort("node-2.local", 9093),
    )
    assert not check_config(dict(GOOD)).static_voters


@pytest.mark.requirement("K853-03")
def test_both_or_neither_voter_property_is_rejected_with_both_names_and_a_remedy() -> None:
    keys = ("controller.quorum.bootstrap.servers", "controller.quorum.voters")
    for pairs, words in (
        ({**GOOD, **STATIC}, ("can't be combined", "2@node-2.local:9093", "keep")),
        ({k: v for k, v in GOOD.items() if k not in keys}, ("neither", "=host:port", "id@host")),
    ):
        with pytest.raises(ConfigError) as raised:
            check_config(pairs)
        assert all(word in str(raised.value) for word in (*keys, *words))


def test_founder_and_static_voters_are_mutually_exclusive() -> None:
    pairs = {**STATIC, "formation.founder.id": "1", "formation.founder.uuid": FOUNDER_UUID}
    with pytest.raises(ConfigError, match=r"formation\.founder\.id=1.*controller\.quorum\.voters"):
        check_config(pairs)


def test_static_quorum_with_several_partitions_requires_a_cluster_id() -> None:
    pairs = {**STATIC, "quorum.partitions": "2"}
    with pytest.raises(ConfigError, match=r"quorum\.partitions=2.*set cluster\.id"):
        check_config(pairs)
    assert check_config({**pairs, "cluster.id": "c"}).partitions == 2


@pytest.mark.parametrize("value", ["short", "AAAAAAAAAAAAAAAAAAAAAA"])
def test_founder_uuid_must_be_valid(value: str) -> None:
    pairs = {**GOOD, "formation.founder.id": "1", "formation.founder.uuid": value}
    with pytest.raises(ConfigError, match=f"formation.founder.uuid={value}"):
        check_config(pairs)


def test_formation_options_are_parsed() -> None:
    pairs = {**GOOD, "formation.founder.id": "1", "formation.founder.uuid": FOUNDER_UUID}
    formation = check_config({**pairs, "formation.initial.voters": "3"}).formation
    assert formation is not None
    assert (formation.founder_id, formation.initial_voters) == (1, 3)


def test_configuration_file_is_combined_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "node.properties"
    path.write_text("# comment\n" + "".join(f"{k} = {v}\n" for k, v in GOOD.items()))
    assert check_config(read_pairs(path, ["node.id=7"])).node_id == 7
    with pytest.raises(ConfigError, match=r"--override 'node\.id'"):
        read_pairs(path, ["node.id"])
    with pytest.raises(ConfigError, match="can't be read"):
        read_pairs(tmp_path / "absent")
    path.write_text("node.id 5\nwhat\n")
    with pytest.raises(ConfigError, match="line 2"):
        read_pairs(path)


KEYSTORE = {
    "ssl.keystore.location": "/tls/keystore.pem",
    "ssl.truststore.location": "/tls/ca.crt",
}


def under(listener: str, keys: dict[str, str]) -> dict[str, str]:
    return {f"listener.name.{listener}.{key}": value for key, value in keys.items()}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"ssl.keystore.location": ""}, "keystore.location: not set: listener CONTROLLER uses TLS"),
        (
            {"ssl.truststore.location": ""},
            "truststore.location: not set: listener CONTROLLER requires",
        ),
        ({"ssl.client.auth": "requested"}, "ssl.client.auth=requested: would let clients in"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type=JKS: must be PEM"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "must be TLSv1.3, TLSv1.2 or both"),
        ({"ssl.keystore.passwrd": "hush-hush"}, "ssl.keystore.passwrd: no such key"),
        ({"listener.name.controler.ssl.key.password": "hush-hush"}, "no such key; did you mean"),
    ],
)
def test_tls_listener_requires_valid_settings(wrong: dict[str, str], why: str) -> None:
    settings = {**GOOD, "listener.security.protocol.map": "CONTROLLER:SSL", **KEYSTORE}
    assert check_config(dict(settings)).dialled.ssl is not None
    with pytest.raises(ConfigError) as raised:
        check_config({**settings, **wrong})
    assert why in str(raised.value)
    assert "hush-hush" not in str(raised.value)


def test_admin_port_uses_the_certificate_of_the_dialled_listener() -> None:
    settings = {
        **GOOD,
        "listener.security.protocol.map": "CONTROLLER:SSL",
        **under("controller", {**KEYSTORE, "ssl.client.auth": "required"}),
        "admin.listener": "https://0.0.0.0:8443",
        "admin.advertised.listener": "https://node-1.local:8443",
        "health.listener": "http://0.0.0.0:8080",
    }
    config = check_config(dict(settings))
    assert config.admin.ssl == config.dialled.ssl
    assert config.has_tls
    assert not config.admin.needs_certificate, "the token is enough"
    own = {**settings, "listener.name.admin.ssl.client.auth": "required"}
    assert check_config(own).admin.needs_certificate
    assert config.health_listener is not None
    with pytest.raises(ConfigError, match="uses https"):
        check_config({**settings, "admin.advertised.listener": "http://node-1.local:8443"})
    with pytest.raises(ConfigError, match=r"admin.listener=https.*store.location: not set"):
        check_config(
            {**GOOD, **{key: settings[key] for key in settings if key.startswith("admin.")}}
        )


def test_several_listeners_have_individual_protocols() -> None:
    settings = {
        **GOOD,
        "listeners": "TOOLS://0.0.0.0:9094,CONTROLLER://0.0.0.0:9093",
        "advertised.listeners": "CONTROLLER://node-1.local:9093,TOOLS://node-1.local:9094",
        "controller.listener.names": "CONTROLLER,TOOLS",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,TOOLS:SSL",
        **under("tools", {**KEYSTORE, "max.connections": "20"}),
    }
    config = check_config(dict(settings))
    dialled, tools = config.listeners
    assert (dialled.name, dialled.ssl, tools.name) == ("CONTROLLER", None, "TOOLS")
    assert config.dialled is dialled
    assert tools.ssl is not None
    assert (tools.advertised.port, tools.limits.max_connections) == (9094, 20)
    for key, value, why in (
        ("advertised.listeners", "CONTROLLER://node-1.local:9093", "add TOOLS to"),
        (
            "controller.listener.names",
            "TOOLS,CONTROLLER",
            "must start with CONTROLLER, to which members connect",
        ),
        ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT", "no entry for listener TOOLS"),
        ("listeners", "CONTROLLER://0.0.0.0:1,CONTROLLER://0.0.0.0:2", "is listed twice"),
    ):
        with pytest.raises(ConfigError, match=why):
            check_config({**settings, key: value})
