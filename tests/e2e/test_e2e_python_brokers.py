"""Brokers of this software on a MetadataQuorum, as in examples/kafka: disks of a controller and of a broker fail, a broker is killed."""

import pytest

from support.kind_env import kube
from support.kind_env.environment import KindEnv
from support.kind_env.python_kafka import PythonKafkaBrokers
from support.kind_env.reassignments import reassignment
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def test_stock_producers_and_groups_continue_after_controller_and_broker_failures(
    env: KindEnv,
) -> None:
    """Nothing acknowledged is lost, and the group that reads all the time misses nothing."""
    quorum = env.create(3, tls={"mode": "Disabled"})
    with PythonKafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 100)
        clients("follow t followers")
        failed = env.fail_disk(env.voter(leader=True))
        env.wait_replaced(failed, 3)
        quorum.wait_phase("Ready", timeout_s=60)
        clients.wait_for_load("t", 300)
        env.cluster.api.delete(kube.core(env.namespace, "pods", "kafka-102"), grace_s=0)
        clients.wait_for_load("t", 300)
        brokers.wait_ready()
        clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group was recreated"


def test_replacement_broker_takes_over_after_the_disk_of_a_broker_failed(env: KindEnv) -> None:
    """Its replicas move as a PartitionReassignment specifies. A stock producer and a group lose no record."""
    quorum = env.create(3, tls={"mode": "Disabled"})
    with PythonKafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 100)
        clients("follow t followers")
        clients.wait_for_load("t", 300)
        env.faults.volumes.disks.fail(env.faults.disk_of("kafka-103"))
        brokers.wait_pod_ready(103, ready=False)
        clients.wait_for_load("t", 300)
        brokers.scale(4)
        brokers.wait_pod_ready(104)

        wanted = {
            number: tuple(104 if each == 103 else each for each in state.replicas)
            for number, state in clients.partitions("t").items()
        }
        path = kube.reassignments(env.namespace, "t")
        env.cluster.api.create(
            kube.reassignments(env.namespace), reassignment("t", quorum.name, wanted)
        )
        wait_for(
            "all replicas to be on the new broker",
            lambda: (env.cluster.api.get(path).get("status") or {}).get("phase") == "Completed",
            timeout_s=240,
            seen=lambda: env.cluster.api.get(path).get("status"),
        )
        assert {n: state.replicas for n, state in clients.partitions("t").items()} == wanted
        wait_for("all replicas in sync", lambda: clients.in_sync("t"), timeout_s=60)
        clients.wait_for_load("t", 300)
        clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group was recreated"
