"""Stock brokers and brokers of this software in one cluster, as in examples/kafka: one of each kind is killed."""

import pytest

from support.kind_env import kube
from support.kind_env.environment import KindEnv
from support.kind_env.python_kafka import MixedKafkaBrokers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def test_stock_producers_and_groups_continue_when_a_broker_of_each_kind_is_killed(
    env: KindEnv,
) -> None:
    """Nothing acknowledged is lost, and replicas are on brokers of both kinds."""
    quorum = env.create(3, tls={"mode": "Disabled"})
    with MixedKafkaBrokers(env.cluster, quorum, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        clients = brokers.clients
        clients("create t 6 3")
        used = {each for state in clients.partitions("t").values() for each in state.replicas}
        assert min(used) < 200 < max(used)
        clients.start_load("t", 100)
        clients("follow t followers")
        clients.wait_for_load("t", 300)
        for pod in ("kafka-102", "kafka-stock-202"):
            env.cluster.api.delete(kube.core(env.namespace, "pods", pod), grace_s=0)
            clients.wait_for_load("t", 300)
            brokers.wait_ready()
        clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group was recreated"
