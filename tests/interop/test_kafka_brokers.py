"""Stock brokers and stock clients on controllers of ours: registration, topics, production, consumption, failures."""

from pathlib import Path

import pytest

from support.java_brokers import Clients, JavaBrokers
from support.local_quorum import LocalQuorum, wait_until

SIGTERM_EXIT = 143
"""What a virtual machine exits with that ended in good order after a SIGTERM."""

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def brokers_on(quorum: LocalQuorum, root: Path, count: int, **properties: str) -> JavaBrokers:
    """Stock brokers that know all controllers."""
    ports = [node.port for node in quorum.nodes.values()]
    return JavaBrokers(root, quorum.cluster_id, ports, count, **properties)


@pytest.mark.requirement("K631-08", "K631-11", "KV3-03")
def test_a_stock_broker_registers_serves_a_topic_and_leaves(tmp_path: Path) -> None:
    """The whole way of one broker: registered, unfenced, used by clients, shut down in a controlled way."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with brokers_on(quorum, tmp_path, 1) as brokers:
            brokers.start()
            brokers.wait_for([101])
            clients = brokers.clients
            clients("create t 3 1")
            assert clients("describe t") == "0:101/101/101 1:101/101/101 2:101/101/101"
            clients("load t 200")
            clients.wait_for_load("t", 100)
            acknowledged = int(clients("stop t").split()[0])
            missing, doubled, disordered, seen = clients("check t readers 30000").split()
            assert (missing, doubled, disordered) == ("0", "0", "0")
            assert int(seen) >= acknowledged
            metrics = metrics_of_the_leader(quorum)
            assert metrics["active_controller"] == metrics["active_brokers"] == 1
            assert metrics["metadata_lag"] == metrics["leaderless_partitions"] == 0
            assert metrics["controller_requests_total"] > 0
            assert metrics["records_committed_total"] > 0
            assert brokers.brokers[101].terminate() == SIGTERM_EXIT


@pytest.mark.long
@pytest.mark.requirement("K631-02", "K631-03", "K631-09", "KV3-01", "KV3-06")
def test_no_acknowledged_message_is_lost_when_controllers_and_brokers_fail(tmp_path: Path) -> None:
    """Numbered messages to three replicas, while the active controller, then a broker is killed and a broker leaves."""
    options = {"broker_session_timeout_ms": "3000"}
    with LocalQuorum(tmp_path / "quorum", **options) as quorum:
        quorum.form()
        with brokers_on(quorum, tmp_path, 3, offsets_topic_replication_factor="3") as brokers:
            brokers.start()
            brokers.wait_for([101, 102, 103])
            clients = brokers.clients
            clients("create t 6 3 min.insync.replicas=2")
            clients("load t 300")
            clients.wait_for_load("t", 200)

            deposed = quorum.leader
            deposed.kill()
            clients.wait_for_load("t", 800)
            clients("create after-the-failover 2 3")
            deposed.start()

            brokers.brokers[101].kill()
            brokers.wait_for([102, 103])
            assert all(leader != 101 for leader, _ in partitions(clients, "t"))
            clients.wait_for_load("t", 1600)
            brokers.brokers[101].start()
            brokers.wait_for([101, 102, 103])
            wait_until(lambda: in_sync(clients, "t", 3), "101 is in sync again", 60)

            assert brokers.brokers[102].terminate() == SIGTERM_EXIT
            assert all(leader != 102 for leader, _ in partitions(clients, "t"))
            brokers.brokers[102].start()
            wait_until(lambda: in_sync(clients, "t", 3), "102 is in sync again", 90)

            acknowledged, sent, longest_gap_ms, errors = clients("stop t").split(" ", 3)
            assert errors == "{}", "a client saw an error that it did not get over by itself"
            assert acknowledged == sent
            missing, doubled, disordered, _ = clients("check t readers 60000").split()
            assert (missing, doubled, disordered) == ("0", "0", "0"), longest_gap_ms


def metrics_of_the_leader(quorum: LocalQuorum) -> dict[str, float]:
    """Metrics of its replica, by name."""
    answer = quorum.client.get(f"{quorum.leader.admin_url}/metrics")
    start, found = "metadata_quorum_", {}
    for line in answer.text.splitlines():
        name, _, value = line.partition('{partition="0"} ')
        if line.startswith(start) and value:
            found[name.removeprefix(start)] = float(value)
    return found


def partitions(clients: Clients, topic: str) -> list[tuple[int, list[int]]]:
    """Leader and ISR of each partition."""
    found = []
    for text in clients(f"describe {topic}").split():
        leader, _, isr = text.partition(":")[2].split("/")
        found.append((int(leader), [int(each) for each in isr.split(",") if each]))
    return found


def in_sync(clients: Clients, topic: str, replicas: int) -> bool:
    """Whether every partition has that many replicas in its ISR."""
    return all(len(isr) == replicas for _, isr in partitions(clients, topic))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.requirement("K631-02", "K631-03", "KV3-06")
def test_ten_active_controllers_are_killed_under_load(tmp_path: Path) -> None:
    """Every takeover goes on where the one before was; clients get over it by themselves."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with brokers_on(quorum, tmp_path, 3, offsets_topic_replication_factor="3") as brokers:
            brokers.start()
            brokers.wait_for([101, 102, 103])
            clients = brokers.clients
            clients("create t 12 3 min.insync.replicas=2")
            clients("load t 500")
            for number in range(10):
                deposed = quorum.leader
                deposed.kill()
                clients(f"create made-after-{number} 3 3")
                clients("grow t " + str(13 + number))
                deposed.start()
                quorum.wait_caught_up(deposed.id)
            for broker in brokers.brokers.values():
                assert broker.terminate() == SIGTERM_EXIT
                broker.start()
                wait_until(lambda: in_sync(clients, "t", 3), f"{broker.id} is in sync again", 120)
            acknowledged, sent, longest_gap_ms, errors = clients("stop t").split(" ", 3)
            assert errors == "{}", "a client saw an error that it did not get over by itself"
            assert acknowledged == sent
            missing, doubled, disordered, _ = clients("check t readers 120000", 150).split()
            assert (missing, doubled, disordered) == ("0", "0", "0"), longest_gap_ms
            assert clients("topics").count("made-after-") == 10
