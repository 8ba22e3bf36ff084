"""Stock brokers, clients and tools while the active controller is killed repeatedly."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.java_brokers import SIGTERM_EXIT, JavaBrokers
from support.java_clients import Clients
from support.java_observer import StockObserver, assert_same_logs
from support.java_reassignment import ReassignmentTool
from support.local_quorum import LocalQuorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

MOVING = 100
SLOW, FAST = 20_000, 100_000_000
"""Bytes per second that the stock tool lets replicas move with."""


@pytest.mark.requirement("K631-02", "K631-05", "KV3-04", "KV3-05", "KV3-06")
def test_ten_active_controllers_are_killed_under_load_during_a_reassignment(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every takeover continues the previous one's work; clients recover, and 100 partitions move."""
    with (
        LocalQuorum(tmp_path / "quorum") as quorum,
        StockObserver(tmp_path / "observer", quorum) as observer,
    ):
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 3, offsets_topic_replication_factor="3") as brokers:
            brokers.start()
            observer.start()
            brokers.wait_for([101, 102, 103])
            clients = brokers.clients
            clients("create t 12 3 min.insync.replicas=2")
            clients(f"create moving {MOVING} 2")
            clients("fill moving 2000 2000")
            clients.start_load("t", 400)
            tool = ReassignmentTool(brokers.bootstrap, tmp_path)
            target = {
                partition_id: tuple(sorted({101, 102, 103} - {state.replicas[1]}))
                for partition_id, state in clients.partitions("moving").items()
            }
            tool.execute("moving", target, throttle=SLOW)
            left = []
            for number in range(10):
                deposed = quorum.leader
                deposed.kill()
                clients(f"create made-after-{number} 3 3")
                clients(f"grow t {13 + number}")
                deposed.start()
                quorum.wait_caught_up(deposed.id)
                left.append(int(clients("reassignments")))
                if number == 5:
                    tool.execute("moving", target, throttle=FAST, additional=True)
            assert left[0] > 0, "the reassignment finished before the first takeover"
            wait_until(lambda: clients("reassignments") == "0", "all partitions have moved", 120)
            tool.verify_complete("moving", target)
            for partition_id, state in clients.partitions("moving").items():
                assert set(state.replicas) == set(target[partition_id])
            for broker in brokers.brokers.values():
                assert broker.terminate() == SIGTERM_EXIT
                broker.start()
                wait_until(lambda: clients.in_sync("t"), f"{broker.id} is in sync again", 120)
            result = clients.prove_nothing_lost("t", "readers")
            record_property("moving after each takeover", left)
            record_property("acknowledged", result.acknowledged)
            record_property("longest gap ms", result.longest_gap_ms)
            assert clients("topics").count("made-after-") == 10
            observer.assert_sound()
            observer.kill()
            observer.start()
            observer.wait_replayed()
            observer.assert_sound()
            assert_same_logs(observer, quorum)


@pytest.mark.requirement("KV3-04", "KV3-06")
def test_reassignment_is_listed_and_cancelled_after_a_takeover(tmp_path: Path) -> None:
    """What the stock tool began under one controller, it takes back under the next."""
    # A throttle acts on what comes after the first answer, which would be all of it.
    small = {"replica_fetch_response_max_bytes": "20000"}
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 2, **small) as brokers:
            brokers.start()
            brokers.wait_for([101, 102])
            clients = brokers.clients
            clients("create moving 10 1")
            clients("fill moving 1000 2000")
            before = clients.partitions("moving")
            target = {
                partition_id: tuple({101, 102} - set(state.replicas))
                for partition_id, state in before.items()
            }
            tool = ReassignmentTool(brokers.bootstrap, tmp_path)
            tool.execute("moving", target, throttle=1_000)
            quorum.leader.kill()
            assert tool.listed() == {f"moving-{partition_id}" for partition_id in range(10)}
            tool.cancel("moving", target)
            assert tool.listed() == set()
            wanted = {key: state.replicas for key, state in before.items()}
            wait_until(lambda: replicas_of(clients) == wanted, "the brokers know it")


def replicas_of(clients: Clients) -> dict[int, tuple[int, ...]]:
    """Of the topic that moves."""
    return {key: state.replicas for key, state in clients.partitions("moving").items()}
