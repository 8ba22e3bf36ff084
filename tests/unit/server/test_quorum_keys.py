"""The keys of the quorum (KIP-595, "Configurations"): each is read, and reaches the core under its meaning."""

import pytest

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.host_port import HostPort

NEEDED = {
    "node.id": "7",
    "advertised.listeners": "CONTROLLER://node-7.local:9093",
    "admin.advertised.listener": "http://node-7.local:8080",
    "metadata.log.dir": "/data",
    "controller.quorum.bootstrap.servers": "node-1.local:9093",
}
# Key → field of the timeouts, default and another value that goes with the other defaults.
TIMES = {
    "election.timeout.ms": ("election_timeout_ms", 1000, 1100),
    "fetch.timeout.ms": ("fetch_timeout_ms", 2000, 2400),
    "election.backoff.max.ms": ("election_backoff_max_ms", 1000, 900),
    "request.timeout.ms": ("request_timeout_ms", 2000, 2100),
    "retry.backoff.ms": ("retry_backoff_ms", 20, 30),
    "retry.backoff.max.ms": ("retry_backoff_max_ms", 1000, 800),
}


def checked(**changes: str) -> NodeConfig:
    return check_config({**NEEDED, **changes})


@pytest.mark.requirement("K595-01")
def test_defaults_are_those_of_stock_kafka() -> None:
    timeouts = checked().timeouts
    found = {field: getattr(timeouts, field) for field, _, _ in TIMES.values()}
    assert found == {field: default for field, default, _ in TIMES.values()}


@pytest.mark.requirement("K595-01")
@pytest.mark.parametrize("key", TIMES)
def test_each_time_property_sets_exactly_one_field(key: str) -> None:
    """One key changes one field, and no other."""
    field, _, value = TIMES[key]
    changed = checked(**{f"controller.quorum.{key}": str(value)}).timeouts
    default = checked().timeouts
    differing = {
        each for each, _, _ in TIMES.values() if getattr(changed, each) != getattr(default, each)
    }
    assert (differing, getattr(changed, field)) == ({field}, value)


@pytest.mark.requirement("K595-01", "K631-01")
def test_node_id_and_bootstrap_servers_are_parsed() -> None:
    servers = {"controller.quorum.bootstrap.servers": "a.local:1,[::1]:2"}
    config = checked(**servers)
    assert config.node_id == 7
    assert config.bootstrap_servers == (HostPort("a.local", 1), HostPort("::1", 2))
    del (pairs := dict(NEEDED))["controller.quorum.bootstrap.servers"]
    config = check_config({**pairs, "controller.quorum.voters": "7@a.local:1,8@b.local:2"})
    assert [(str(voter)) for voter in config.static_voters] == ["7@a.local:1", "8@b.local:2"]


@pytest.mark.requirement("K631-01")
def test_listener_and_advertised_listener_are_parsed() -> None:
    listener = {"listeners": "CONTROLLER://0.0.0.0:9193", "controller.listener.names": "CONTROLLER"}
    config = checked(**listener)
    assert (config.dialled.address.host, config.dialled.address.port) == ("0.0.0.0", 9193)
    assert config.dialled.advertised == HostPort("node-7.local", 9093)
