"""Brokers of this software on a MetadataQuorum, as in examples/kafka: the disk of a controller dies, a broker is killed."""

import pytest

from support.trial import kube
from support.trial.arena import Arena
from support.trial.python_kafka import PythonKafkaBrokers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


def test_stock_producers_and_groups_get_over_dead_controllers_and_dead_brokers(
    arena: Arena,
) -> None:
    """Nothing acknowledged is lost, and the group that reads all the time misses nothing."""
    quorum = arena.create(3, tls={"mode": "Disabled"})
    with PythonKafkaBrokers(arena.stage, quorum, arena.folder / "kafka") as brokers:
        brokers.wait_ready()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 100)
        clients("follow t followers")
        failed = arena.fail_disk(arena.voter(leader=True))
        arena.wait_replaced(failed, 3)
        quorum.wait_phase("Ready", timeout_s=60)
        clients.wait_for_load("t", 300)
        arena.stage.api.delete(kube.core(arena.namespace, "pods", "kafka-102"), grace_s=0)
        clients.wait_for_load("t", 300)
        brokers.wait_ready()
        clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group that was there all the time"
