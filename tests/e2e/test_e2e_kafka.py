"""Stock Kafka brokers on a MetadataQuorum, as in examples/kafka, while the disk of a controller dies."""

from collections.abc import Callable

import pytest

from support.trial.arena import Arena
from support.trial.kafka import KafkaBrokers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.requirement("OP-04", "K853-06", "KV3-06")
def test_producers_get_over_dead_disks_of_controllers(
    arena: Arena, record_property: Callable[[str, object], None]
) -> None:
    """First under the active controller, then under another one; nothing acknowledged is lost, nobody sees an error."""
    quorum = arena.create(3)
    with KafkaBrokers(arena.stage, quorum, arena.folder / "kafka") as brokers:
        brokers.wait_ready()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 200)
        clients("follow t followers")
        for leader in (True, False):
            before = quorum.wait_healthy(3, timeout_s=30)
            failed = arena.fail_disk(arena.voter(leader=leader, described=before))
            clients(f"create after-{failed.node_id}-{leader} 3 3")
            arena.wait_replaced(failed, 3)
            quorum.wait_phase("Ready", timeout_s=60)
            clients(f"grow t {7 if leader else 8}")
            clients.wait_for_load("t", 500)
        assert clients.in_sync("t"), "no broker was fenced for long"
        result = clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group that was there all the time"
        record_property("acknowledged", result.acknowledged)
        record_property("longest gap ms", result.longest_gap_ms)
