"""Stock brokers and stock clients on controllers of ours: registration, topics, production, consumption, failures."""

from pathlib import Path

import pytest

from support.java_brokers import SIGTERM_EXIT, JavaBrokers
from support.java_clients import Clients
from support.java_observer import StockObserver, assert_same_logs
from support.local_quorum import LocalQuorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

GAUGES = ("active_controller", "active_brokers", "metadata_lag", "leaderless_partitions")


@pytest.mark.requirement("K631-08", "KV3-03")
def test_stock_broker_registers_serves_a_topic_and_shuts_down(tmp_path: Path) -> None:
    """The whole way of one broker: registered, unfenced, used by clients, shut down in a controlled way."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 1) as brokers:
            brokers.start()
            brokers.wait_for([101])
            clients = brokers.clients
            clients("create t 3 1")
            assert clients("describe t") == "0:101/101/101 1:101/101/101 2:101/101/101"
            clients.start_load("t", 200)
            clients.wait_for_load("t", 100)
            clients.prove_nothing_lost("t", "readers", 30)

            def settled() -> dict[str, float] | None:
                """On a busy machine there may be an election, whose record is not replayed at once."""
                found = metrics_of_the_leader(quorum)
                gauges = (found.get(name) for name in GAUGES)
                return found if tuple(gauges) == (1, 1, 0, 0) else None

            metrics = wait_until(settled, "one controller and one broker, and nothing behind")
            assert metrics["controller_requests_total"] > 0
            assert metrics["records_committed_total"] > 0
            assert brokers.brokers[101].terminate() == SIGTERM_EXIT


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("K631-09")
def test_no_acknowledged_message_is_lost_when_controllers_and_brokers_fail(tmp_path: Path) -> None:
    """Numbered messages to three replicas, read by a group meanwhile: the active controller and a broker are killed,
    every broker is restarted in order, topics come, grow, change and go. A stock controller replays all of it.
    """
    options = {"broker_session_timeout_ms": "3000"}
    with (
        LocalQuorum(tmp_path / "quorum", **options) as quorum,
        StockObserver(tmp_path / "observer", quorum) as observer,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 3, offsets_topic_replication_factor="3") as brokers:
            brokers.start()
            observer.start()
            brokers.wait_for([101, 102, 103])
            clients = brokers.clients
            clients("create t 6 3 min.insync.replicas=2")
            clients.start_load("t", 300)
            clients("follow t followers")

            deposed = quorum.leader
            deposed.kill()
            create_and_delete_topics(clients)
            clients.wait_for_load("t", 300)
            deposed.start()

            brokers.brokers[101].kill()
            brokers.wait_for([102, 103])
            wait_until(lambda: not leads(clients, 101), "101 leads nothing")
            clients.wait_for_load("t", 300)
            brokers.brokers[101].start()
            brokers.wait_for([101, 102, 103])
            wait_until(lambda: clients.in_sync("t"), "101 is in sync again", 60)

            for broker in brokers.brokers.values():
                assert broker.terminate() == SIGTERM_EXIT
                wait_until(lambda: not leads(clients, broker.id), f"{broker.id} leads nothing")  # noqa: B023
                broker.start()
                wait_until(lambda: clients.in_sync("t"), f"{broker.id} is in sync again", 90)

            clients.prove_nothing_lost("t", "readers", 60)
            assert clients("followed t 60000") == "0", "the group was recreated"
            observer.kill()
            observer.start()
            observer.wait_replayed()
            observer.assert_sound()
            assert_same_logs(observer, quorum)


def create_and_delete_topics(clients: Clients) -> None:
    """A topic is made, grows, is configured, deleted, and made again as another one."""
    clients("create u 2 3")
    clients("grow u 5")
    clients("config u retention.ms 3600000")
    wait_until(lambda: clients("config-of u retention.ms") == "3600000", "brokers know the config")
    clients("fill u 50 100")
    clients("delete u")
    wait_until(lambda: "u" not in clients("topics").strip("[]").split(", "), "brokers delete it")
    clients("create u 1 3")
    assert clients("config-of u retention.ms") == "604800000"
    assert clients("end-of u 1") == "0", "nothing of the deleted topic is left"


def leads(clients: Clients, broker_id: int) -> bool:
    """Whether a broker leads a partition of the topic under load."""
    return any(each.leader == broker_id for each in clients.partitions("t").values())


def metrics_of_the_leader(quorum: LocalQuorum) -> dict[str, float]:
    """Metrics of its replica, by name."""
    answer = quorum.client.get(f"{quorum.leader.admin_url}/metrics")
    start, found = "metadata_quorum_", {}
    for line in answer.text.splitlines():
        name, _, value = line.partition('{partition="0"} ')
        if line.startswith(start) and value:
            found[name.removeprefix(start)] = float(value)
    return found
