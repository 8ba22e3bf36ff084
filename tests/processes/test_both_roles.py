"""process.roles=broker,controller: members of the quorum that are brokers as well, each one process with one node id."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.errors import ErrorCode
from support.combined_quorum import CombinedBrokers, CombinedQuorum, TlsCombinedQuorum
from support.local_quorum import wait_until
from support.one_request import ask
from support.tls_quorum import client_context

pytestmark = pytest.mark.requirement("K631-01")

IDS = (1, 2, 3)


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[CombinedQuorum]:
    with CombinedQuorum(tmp_path) as made:
        made.form()
        yield made


def test_three_combined_processes_form_a_quorum_and_a_broker_cluster(
    quorum: CombinedQuorum,
) -> None:
    brokers = CombinedBrokers(quorum)
    brokers.wait_live()
    assert set(quorum.voter_ids()) == set(IDS)
    topic = brokers.create_topic("t", IDS, min_insync_replicas="2")
    written = []

    def write(value: bytes) -> None:
        """Acknowledged by the leader that any live broker names."""

        def acknowledged() -> bool:
            for told_by in IDS:
                leader = brokers.leader("t", told_by) if brokers.nodes[told_by].is_running else None
                if leader is None or not brokers.nodes[leader].is_running:
                    continue
                try:
                    return brokers.produce(leader, topic, [value]).error_code == ErrorCode.NONE
                except OSError:
                    continue
            return False

        wait_until(acknowledged, f"{value!r} is acknowledged", 60)
        written.append(value)

    write(b"before")
    # The active controller is the leader of the partition, too: one kill takes both.
    controller = quorum.leader.id
    wait_until(lambda: brokers.isr("t", controller) == set(IDS), "all are in sync", 60)
    quorum.nodes[controller].kill()
    write(b"without the controller")
    quorum.nodes[controller].start()
    wait_until(lambda: brokers.isr("t", controller) == set(IDS), "all are in sync again", 60)
    # A graceful stop: the broker moves its leaders, then the controller transfers leadership.
    stopped = quorum.leader.id
    assert quorum.nodes[stopped].terminate() == ExitCode.OK
    write(b"without the one that stopped")
    quorum.nodes[stopped].start()
    wait_until(lambda: brokers.isr("t", stopped) == set(IDS), "all are in sync at the end", 60)
    for broker_id in IDS:
        leader = wait_until(lambda: brokers.leader("t", broker_id), "it has a leader")  # noqa: B023
        assert [each for each in written if each not in brokers.read_all(leader, topic)] == []
    assert all("duplicate" not in node.log_text for node in quorum.nodes.values())


def test_combined_processes_with_mutual_tls_replicate_and_elect_leaders(tmp_path: Path) -> None:
    """The broker registers, heartbeats and fetches with its own certificate, the controller votes with another one."""
    with TlsCombinedQuorum(tmp_path) as quorum:
        quorum.form()
        brokers = CombinedBrokers(quorum)
        brokers.wait_live()
        topic = brokers.create_topic("t", IDS, min_insync_replicas="2")
        leader = wait_until(lambda: brokers.leader("t", 1), "it has a leader")
        wait_until(lambda: brokers.isr("t", leader) == set(IDS), "all are in sync", 60)
        assert brokers.produce(leader, topic, [b"before"]).error_code == ErrorCode.NONE
        quorum.nodes[leader].kill()
        (other, _) = (each for each in IDS if each != leader)

        def another_leader() -> int | None:
            found = brokers.leader("t", other)
            return None if found == leader else found

        now = wait_until(another_leader, "another leads", 60)
        assert brokers.produce(now, topic, [b"after"]).error_code == ErrorCode.NONE
        quorum.nodes[leader].start()
        wait_until(lambda: brokers.isr("t", now) == set(IDS), "all are in sync again", 60)
        assert brokers.read_all(now, topic) == [b"before", b"after"]
        brokers.tls = client_context(None, quorum.folder("admin") / "ca.crt")
        with pytest.raises(OSError, match=r"certificate required|reset|closed|EOF"):
            brokers.produce(now, topic, [b"by nobody"])


def test_each_listener_serves_its_own_role(quorum: CombinedQuorum) -> None:
    """A client's request at the controller's port and a Raft request at the broker's port are not served."""
    brokers = CombinedBrokers(quorum)
    brokers.wait_live()
    apis = {}
    for name, port in (("broker", quorum.broker_ports[1]), ("controller", quorum.nodes[1].port)):
        apis[name] = announced("127.0.0.1", port)
    produce, vote, broker_heartbeat = 0, 52, 63
    assert produce in apis["broker"]
    assert vote not in apis["broker"]
    assert {vote, broker_heartbeat} <= apis["controller"]
    assert produce not in apis["controller"]


def announced(host: str, port: int) -> set[int]:
    """Keys of the APIs that a port announces."""
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = ask((host, port), API_VERSIONS, API_VERSIONS.max_version, request, 10)
    assert isinstance(answer, ApiVersionsResponse)
    return {each.api_key for each in answer.api_keys}
