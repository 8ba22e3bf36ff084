"""Stock brokers with mutual TLS and an authorizer on our controllers, and clients that log in by SCRAM."""

import re
from pathlib import Path

import pytest

from support.java_clients import ClientFailed
from support.local_quorum import wait_until
from support.secured_brokers import ADMIN, SecuredBrokers
from support.unauthorized_clients import LockedQuorum

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]


def test_stock_broker_registers_with_its_certificate(tmp_path: Path) -> None:
    """Over SSL, on a controller with an authorizer: unfenced brokers send heartbeats and have read the log."""
    with LockedQuorum(tmp_path / "quorum", 1) as quorum:
        quorum.form()
        with SecuredBrokers(tmp_path / "brokers", quorum, 1) as brokers:
            brokers.start()
            wait_until(lambda: active_brokers(quorum) == 1, "the broker is unfenced", 120)


def active_brokers(quorum: LockedQuorum) -> int:
    """Number of unfenced brokers, by the metric of the active controller."""
    text = quorum.answered("GET", "/metrics").text
    (line,) = re.findall(r"^metadata_quorum_active_brokers(?:{.*})? (\S+)$", text, re.MULTILINE)
    return int(float(line))


@pytest.mark.long
def test_authenticated_clients_lose_no_message_while_controllers_and_brokers_fail(
    tmp_path: Path,
) -> None:
    """What brokers pass on for a client is judged by the client's own rights; their internal topics they make themselves."""
    with LockedQuorum(tmp_path / "quorum", 3) as quorum:
        quorum.form()
        topics = {"offsets_topic_replication_factor": "2"}
        with SecuredBrokers(tmp_path / "brokers", quorum, 2, **topics) as brokers:
            brokers.start()
            brokers.grant(ADMIN, "--operation", "All", "--cluster")
            brokers.make_user("alice", "alices")
            brokers.make_user("bob", "bobs")
            brokers.grant("User:alice", "--operation", "All", "--topic", "t", "--group", "*")
            clients = brokers.clients_of("alice", "alices")
            try:
                clients("create t 4 2")
                clients.start_load("t", 100)
                clients("follow t followers")
                leader = quorum.leader
                leader.kill()
                clients.wait_for_load("t", 300)
                leader.start()
                with pytest.raises(ClientFailed, match="AuthorizationException"):
                    clients("create of-others 1 2")
                broker = brokers.brokers[101]
                broker.kill()
                clients.wait_for_load("t", 300)
                broker.start()
                wait_until(lambda: clients.in_sync("t"), "every replica is in sync again", 120)
                clients.prove_nothing_lost("t", "readers")
                assert clients("followed t 60000") == "0"
            finally:
                clients.close()
            stranger = brokers.clients_of("bob", "bobs")
            try:
                assert stranger("topics") == "[]", "a client without rights sees the topic"
                with pytest.raises(ClientFailed, match="AuthorizationException"):
                    stranger("create t2 1 2")
            finally:
                stranger.close()
