"""An IPv6 address with a port is written in brackets, so that it can be pasted into an option."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorum_node import api
from quorum_node.client import NoLeader, QuorumAdminClient
from quorum_node.client.committed_log import CommittedLog, CommittedLogError
from quorum_node.client.connections import Connections
from quorum_node.quorumctl import render
from quorum_node.raft.description import ReplicaDescription
from quorum_node.records.identity import Endpoint
from quorum_node.server.admin.leader import elsewhere, url_of
from quorum_node.server.peers.tls_dialling import TlsDialling
from quorum_node.server.transport.sockets import PeerNamed, peer_name
from quorum_pipeline.state.tables import broker_row
from support.raft.cores import Cores
from support.written_log import broker

HOST = "2001:db8::7"
SHOWN = "[2001:db8::7]:9093"


def not_answering(*anything: object, **more: object) -> None:
    raise ConnectionResetError("reset")


def test_admin_client_names_its_server_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connections, "ask", not_answering)
    with (
        QuorumAdminClient(SHOWN, timeout_ms=1) as client,
        pytest.raises(NoLeader) as failed,
    ):
        client.describe_quorum()
    assert f"last error: {SHOWN}: reset" in str(failed.value)


def test_reader_of_the_log_names_its_server_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connections, "ask", not_answering)
    log = CommittedLog([(HOST, 9093)], 0.0, client_id="test")
    assert log.leader == SHOWN
    with pytest.raises(CommittedLogError) as failed:
        log.cluster_id()
    assert f"last error: {SHOWN}: reset" in str(failed.value)


def test_quorumctl_shows_endpoints_in_brackets() -> None:
    found = api.DiscoveredBrokers(
        cluster_id="c",
        leader_id=1,
        leader_epoch=1,
        brokers=[api.DiscoveredBroker(id=1, uuid=None, host=HOST, port=9093, boot_timestamp_ms=0)],
    )
    assert any(SHOWN in line for line in render.discovered(found))
    endpoint = api.EndpointModel(name="ADMIN", host=HOST, port=9093)
    assert render._endpoint(endpoint) == f"ADMIN://{SHOWN}"


def test_leader_without_admin_api_is_named_in_brackets() -> None:
    """Its address is an argument of the command that the message recommends."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    found: ReplicaDescription = cores.nodes["3"].replica.describe(cores.now_ms)
    endpoint = Endpoint("CONTROLLER", HOST, 9093)
    problem = elsewhere(replace(found, voters=(), leader_endpoint=endpoint))
    assert f"--bootstrap-controller {SHOWN}" in problem.message
    assert url_of(endpoint, "https") == f"https://{SHOWN}"


def test_connections_are_named_in_brackets() -> None:
    peer = cast(PeerNamed, SimpleNamespace(get_extra_info=lambda name: (HOST, 9093, 0, 0)))
    assert peer_name(peer) == SHOWN
    told: list[str] = []
    reports = SimpleNamespace(server_refused=lambda server, why: told.append(server))
    dialling = TlsDialling.__new__(TlsDialling)
    dialling._reports = cast(Any, reports)
    dialling._count = lambda reason: None
    dialling._tell(HOST, 9093, "closed", "why")
    assert told == [SHOWN]


def test_table_of_brokers_has_brackets() -> None:
    one = broker(1)
    (endpoint,) = one.end_points
    registered = replace(one, end_points=(replace(endpoint, host=HOST, port=9093),))
    assert broker_row(registered, 0)["endpoints"] == [f"PLAINTEXT://{SHOWN}"]
