"""controller.quorum.voters is exchanged for bootstrap servers while a voter, or a wiped disk, does not know that the quorum has formed.

A process with neither is rejected by the node's configuration, so every simulated one has one of them (seed 40240).
"""

from random import Random

import pytest

from quorum_node.raft.outputs import VotersChanged
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

LIMIT_MS = 20_000.0


class World:
    """Three static voters; one of them is cut off before it gets the voters record."""

    def __init__(self) -> None:
        self.cluster = Cluster(5, initial_voters=3)
        self.plan = MembershipPlan(self.cluster, Random(8))
        self.hosts = self.plan.found_static(3)
        self.late: SimulatedHost
        self.cluster.on_voters = self._cut_one_off
        for host in self.hosts:
            host.machine.start()
        self.until(self.plan.is_done)
        assert self.late.log.end_offset == 0

    def _cut_one_off(self, leader: SimulatedHost, change: VotersChanged) -> None:
        if not leader.is_leader:
            return
        self.cluster.on_voters = lambda host, change: None
        self.late = next(host for host in self.hosts if host is not leader)
        for other in self.hosts:
            pair = (self.late.address, other.address)
            self.cluster.network.blocked |= {pair, pair[::-1]}

    def until(self, what: object) -> None:
        assert callable(what)
        scheduler = self.cluster.scheduler
        assert scheduler.run_until(what, scheduler.now_ms + LIMIT_MS)

    def roll(self) -> None:
        self.cluster.static_ids = ()
        for host in self.cluster.hosts.values():
            host.forget_static_voters()
        self.cluster.network.blocked.clear()


@pytest.mark.parametrize("which", ["slept", "emptied"])
def test_node_that_missed_the_formation_finds_the_quorum_after_a_rollout(which: str) -> None:
    world = World()
    world.late.machine.crash()
    world.roll()
    host = world.late
    if which == "emptied":
        host.machine.break_disk()
        host = world.plan.replace_in_place(host)
    host.machine.start()
    assert not host.config.static_voters
    world.until(lambda: host.replica.high_watermark > 0)
    world.until(world.plan.is_done)
