"""The operations plan starts nothing while a member's disk is lost and not yet detected."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from quorum_node.raft.messages import AlterQuorumRequest
from quorum_node.records.identity import ReplicaKey
from quorum_node.storage.errors import StorageFailure
from quorum_simulation.cluster import CLUSTER_ID, Cluster
from quorum_simulation.faults.expendable import survives_without
from quorum_simulation.faults.family import FaultContext
from quorum_simulation.faults.forged_requests import ForgedRequests
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

LIMIT_MS = 20_000.0


class World:
    """Some voters, and a plan with ever other target voters."""

    def __init__(self, size: int = 3) -> None:
        self.cluster = Cluster(5, initial_voters=size)
        self.plan = MembershipPlan(self.cluster, Random(8))
        self.plan.found(size)
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
    host.machine.rot(host.log.segment_paths()[0], 20, 3)


def break_down(host: SimulatedHost) -> None:
    host.machine.break_disk()


def fail_next_sync(host: SimulatedHost) -> None:
    """Its next sync fails."""
    host.machine.disk_faults.append("a sync failed")
    host.machine.files.failing_sync = errno.EIO


def give_up(host: SimulatedHost) -> None:
    """A sync has failed; the next one would succeed, and the failure is not detected yet."""
    fail_next_sync(host)
    host.driver.flush_failed(StorageFailure("cannot sync: EIO"))
    host.machine.files.failing_sync = None


LOSSES = (rot, break_down, fail_next_sync, give_up)


def test_members_change_while_all_disks_are_healthy() -> None:
    assert World().changes_within(LIMIT_MS) > 0


@pytest.mark.parametrize("lost", LOSSES)
def test_no_member_change_before_a_lost_disk_is_detected(
    lost: Callable[[SimulatedHost], None],
) -> None:
    """The voters could shrink to two, one of them this one; then its end is the end of the quorum."""
    world = World()
    lost(world.follower())
    assert world.changes_within(LIMIT_MS) == 0


@pytest.mark.parametrize("lost", LOSSES)
def test_no_other_disk_fails_before_a_lost_disk_is_replaced(
    lost: Callable[[SimulatedHost], None],
) -> None:
    world = World()
    first = world.follower()
    other = next(host for host in world.plan.wanted if host not in (first, world.cluster.leader))
    assert survives_without(world.cluster, world.plan, other)
    lost(first)
    assert not survives_without(world.cluster, world.plan, other)


@pytest.mark.parametrize("lost", LOSSES)
def test_no_other_disk_fails_after_detection_until_the_voters_have_changed(
    lost: Callable[[SimulatedHost], None],
) -> None:
    """Its successor has to join first: until then two of four would be gone (seeds 10182 and 10298 of the long set)."""
    world = World(4)
    first = world.follower()
    others = [host for host in world.plan.wanted if host is not first]
    lost(first)
    give_up(first)
    FaultContext(world.cluster, world.plan, Random(1)).bury(first)
    assert first not in world.plan.wanted

    def survives() -> bool:
        return any(survives_without(world.cluster, world.plan, host) for host in others)

    assert not survives()
    scheduler = world.cluster.scheduler
    assert scheduler.run_until(survives, scheduler.now_ms + LIMIT_MS)
    leader = world.cluster.leader
    assert leader is not None
    voters = leader.replica.voters.committed.voters
    assert first.key not in voters or len(voters) == 5


def test_single_failed_sync_without_a_latch_loses_no_disk() -> None:
    world = World()
    host = world.follower()
    host.machine.keeps_mark = False
    give_up(host)
    fail_next_sync(host)
    assert not host.machine.counts_as_lost


def test_static_quorum_keeps_its_ids_on_the_way_to_target_voters() -> None:
    """Somebody else's AlterQuorum makes the plan go by target voters, too."""
    world = World()
    world.plan.ids_are_fixed = True
    for _ in range(150):
        leader = world.cluster.leader
        if leader is not None:
            few = AlterQuorumRequest(CLUSTER_ID, (leader.key,), 1000)
            world.cluster.ask(leader, few, lambda response: None)
        world.changes_within(200.0)
        assert {host.key.id for host in world.plan.wanted} == {1, 2, 3}
    assert world.plan.changes > 0


def test_forged_requests_remove_no_voter_whose_place_an_empty_disk_took() -> None:
    """The empty one is a member already, and no voter yet: with one voter fewer the rest may be no majority."""
    world = World()
    context = FaultContext(world.cluster, world.plan, Random(1))
    requests = ForgedRequests(context)
    leader = world.cluster.leader
    assert leader is not None
    members = {host.key for host in world.plan.wanted}
    assert _removed_by(requests, leader) & members, "a removal can be undone while all is well"
    gone = world.follower()
    gone.machine.retired = True
    world.plan.replace_in_place(gone)
    assert not _removed_by(requests, leader) & members


def _removed_by(requests: ForgedRequests, leader: SimulatedHost) -> set[ReplicaKey]:
    """The voters that any of many forged requests would remove."""
    sent = [requests.removal(leader) for _ in range(200)]
    return {request.voter for request in sent}
