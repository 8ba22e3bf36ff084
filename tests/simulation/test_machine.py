"""What happens to a simulated machine happens to the replicas of both partitions."""

import pytest

from quorum_node.raft.outputs import HaltReason
from quorum_simulation.cluster import Cluster
from quorum_simulation.machine import Machine

pytestmark = pytest.mark.requirement("K595-31")
LIMIT_MS = 5000.0


class World:
    """Two partitions on one machine, both led by it."""

    def __init__(self) -> None:
        self.first = Cluster(5, 1)
        self.second = Cluster(5, 1, first=self.first)
        self.ended: list[HaltReason | None] = []
        self.first.on_halted = lambda host: self.ended.append(host.halted)
        self.machine: Machine = self.first.add_host(1, founder=True).machine
        self.until_led()

    def until(self, what: object) -> None:
        assert callable(what)
        scheduler = self.first.scheduler
        assert scheduler.run_until(what, scheduler.now_ms + LIMIT_MS)

    def until_led(self) -> None:
        self.until(lambda: all(replica.is_leader for replica in self.machine.replicas))

    def up(self) -> list[bool]:
        return [replica.up for replica in self.machine.replicas]


def test_each_partition_has_its_own_replica_key() -> None:
    keys = [replica.key for replica in World().machine.replicas]
    assert [key.id for key in keys] == [1, 1]
    assert keys[0].uuid != keys[1].uuid


def test_crash_stops_both_replicas_and_both_restart() -> None:
    world = World()
    world.machine.crash()
    assert world.up() == [False, False]
    world.machine.start()
    world.until_led()


@pytest.mark.parametrize("fails", [0, 1])
def test_failed_disk_of_one_replica_stops_the_process(fails: int) -> None:
    world = World()
    replica = world.machine.replicas[fails]
    replica.driver.flush_failed(_eio(world, fails))
    assert all(each.replica.halted for each in world.machine.replicas), "no time has passed"
    world.until(lambda: world.ended)
    assert world.ended == [HaltReason.STORAGE_FAILED]
    assert world.up() == [False, False]
    assert [each.halted for each in world.machine.replicas] == [HaltReason.STORAGE_FAILED] * 2


def _eio(world: World, fails: int) -> Exception:
    world.machine.break_disk()
    replica = world.machine.replicas[fails]
    with pytest.raises(Exception, match="simulated EIO") as raised:
        replica.save(replica.opened_state)
    return raised.value


def test_shutdown_ends_the_process_when_both_replicas_have_transferred_leadership() -> None:
    world = World()
    world.machine.request_shutdown()
    world.until(lambda: world.ended)
    assert world.ended == [HaltReason.SHUTDOWN]
    assert world.up() == [False, False]


def test_frozen_process_freezes_both_replicas() -> None:
    world = World()
    scheduler = world.first.scheduler
    world.machine.frozen_until_ms = scheduler.now_ms + 300
    assert [each.frozen_until_ms for each in world.machine.replicas] == [
        world.machine.frozen_until_ms
    ] * 2


def test_cut_links_are_cut_for_both_replicas() -> None:
    world = World()
    world.first.network.blocked.add(("1-1", "2-1"))
    assert world.second.network.blocked == {("1-1", "2-1")}
