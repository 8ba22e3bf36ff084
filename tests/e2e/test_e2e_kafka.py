"""Stock Kafka brokers on a MetadataQuorum with certificates, as in examples/kafka: the disk of a controller fails; partitions move."""

from collections.abc import Callable

import pytest

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.environment import KindEnv
from support.kind_env.kafka import KafkaBrokers, identities
from support.kind_env.reassignments import reassignment
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.requirement("OP-04", "K853-06", "KV3-06")
def test_producers_continue_after_disk_failures_of_controllers(
    env: KindEnv, record_property: Callable[[str, object], None]
) -> None:
    """First under the active controller, then under another one; no acknowledged record is lost, and no client gets an error."""
    quorum = env.create(3, tls=identities())
    with KafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        brokers.make_user()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 200)
        clients("follow t followers")
        for leader in (True, False):
            before = quorum.wait_healthy(3, timeout_s=30)
            failed = env.fail_disk(env.voter(leader=leader, described=before))
            clients(f"create after-{failed.node_id}-{leader} 3 3")
            env.wait_replaced(failed, 3)
            quorum.wait_phase("Ready", timeout_s=60)
            clients(f"grow t {7 if leader else 8}")
            clients.wait_for_load("t", 500)
        assert clients.in_sync("t"), "no broker was fenced for long"
        result = clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group was recreated"
        record_property("acknowledged", result.acknowledged)
        record_property("longest gap ms", result.longest_gap_ms)


@pytest.mark.requirement("OP-08")
def test_reassignment_moves_partitions_under_load_as_specified(env: KindEnv) -> None:
    """A few at a time, while the operator is killed; nothing acknowledged is lost."""
    quorum = env.create(3, tls=identities())
    with KafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        brokers.make_user()
        clients = brokers.clients
        clients("create t 12 2")
        clients.start_load("t", 100)
        ids = {101, 102, 103}
        wanted = {
            number: (*(ids - set(state.replicas)), state.replicas[0])
            for number, state in clients.partitions("t").items()
        }
        path = kube.reassignments(env.namespace, "t")
        env.cluster.api.create(
            kube.reassignments(env.namespace), reassignment("t", quorum.name, wanted)
        )

        def status() -> Json:
            found: Json = env.cluster.api.get(path).get("status") or {}
            return found

        def moved(count: int) -> bool:
            assert status().get("moving", 0) <= 3
            return bool(status().get("done", 0) >= count)

        wait_for("the first to arrive", lambda: moved(1), timeout_s=60, seen=status, poll_s=0.1)
        env.kill_operator()
        wait_for("all to arrive", lambda: moved(12), timeout_s=240, seen=status, poll_s=0.1)
        wait_for("its end", lambda: status()["phase"] == "Completed", timeout_s=30, seen=status)
        assert {n: state.replicas for n, state in clients.partitions("t").items()} == wanted
        assert clients("reassignments") == "0"
        clients.wait_for_load("t", 200)
        clients.prove_nothing_lost("t", "readers")
