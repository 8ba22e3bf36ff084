"""The outside hand begins nothing while a member's disk is lost and nobody knows it yet."""

from random import Random

import pytest

from quorum_node.simulation.cluster import Cluster
from quorum_node.simulation.faults.expendable import survives_without
from quorum_node.simulation.host import SimulatedHost
from quorum_node.simulation.machine import Rot
from quorum_node.simulation.membership_plan import MembershipPlan

LIMIT_MS = 20_000.0


class World:
    """Three voters, and a plan that wants ever other ones."""

    def __init__(self) -> None:
        self.cluster = Cluster(5, initial_voters=3)
        self.plan = MembershipPlan(self.cluster, Random(8))
        self.plan.found(3)
        scheduler = self.cluster.scheduler
        assert scheduler.run_until(self.plan.is_done, scheduler.now_ms + LIMIT_MS)

    def changes_within(self, limit_ms: float) -> int:
        before = self.plan.changes
        self.plan.restless = True
        scheduler = self.cluster.scheduler
        end_ms = scheduler.now_ms + limit_ms
        scheduler.run_until(lambda: scheduler.now_ms >= end_ms, end_ms + 1)
        return self.plan.changes - before

    def follower(self) -> SimulatedHost:
        return next(host for host in self.plan.wanted if not host.is_leader)


def rot(host: SimulatedHost) -> None:
    path = host.log.segment_paths()[0]
    file = host.machine.files.file(path)
    assert file is not None
    file.flip(20, 3)
    host.machine.rot(Rot(path, file, 20, file.content[20]))


def test_members_change_while_all_disks_are_good() -> None:
    assert World().changes_within(LIMIT_MS) > 0


@pytest.mark.parametrize("lost", [rot, lambda host: host.machine.break_disk()])
def test_nothing_begins_while_a_disk_is_lost_that_nobody_has_noticed(lost: object) -> None:
    """The voters could shrink to two, one of them this one; then its end is the end of the quorum."""
    world = World()
    assert callable(lost)
    lost(world.follower())
    assert world.changes_within(LIMIT_MS) == 0


def test_no_other_disk_may_go_then() -> None:
    world = World()
    first = world.follower()
    other = next(host for host in world.plan.wanted if host not in (first, world.cluster.leader))
    assert survives_without(world.cluster, world.plan, other)
    rot(first)
    assert not survives_without(world.cluster, world.plan, other)
