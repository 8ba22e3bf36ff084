"""Brokers of this software on a MetadataQuorum, as in examples/kafka: the disk of a controller dies, a broker is killed."""

import pytest

from support.kind_env import kube
from support.kind_env.environment import KindEnv
from support.kind_env.python_kafka import PythonKafkaBrokers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def test_stock_producers_and_groups_continue_after_failed_controllers_and_brokers(
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
        assert clients("followed t 60000") == "0", "the group that was there all the time"
