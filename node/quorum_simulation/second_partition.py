"""The second quorum partition of a history: the same machines, a quorum of its own (K595-31).

It has its own log, voters, leader, clients and invariants; crashes, frozen processes, broken disks
and cut links are those of the first partition's history. Must not know which faults there are.
"""

from random import Random

from quorum_node.raft.leadership import Leader
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

SHARE = 0.15
"""Share of the histories that have two partitions."""
WANTED_WRITES = 100


class FollowingPlan(MembershipPlan):
    """Wants the machines that the first partition's plan wants, and gets there at its own pace."""

    def __init__(self, cluster: Cluster, random: Random, first: MembershipPlan) -> None:
        super().__init__(cluster, random)
        self._first = first
        first.others_settled = self.is_done
        first.may_switch_off = self._needs_no_more

    def begin(self) -> None:
        """The first plan has found its machines."""
        self._look()

    def is_done(self) -> bool:
        self._follow()
        return super().is_done()

    def _look(self) -> None:
        self._follow()
        super()._look()

    def _follow(self) -> None:
        wanted = [self._cluster.hosts[host.address] for host in self._first.wanted]
        if wanted != self.wanted:
            self.wanted = wanted
            self._remove_first = self._random.random() < 0.5

    def _needs_no_more(self, host: SimulatedHost) -> bool:
        """Whether this partition has let go of a machine, and none of its members knows that one alone."""
        leader = self._cluster.leader
        if leader is None or not isinstance(leader.replica.role, Leader):
            return False
        voters = leader.replica.voters
        here = self._cluster.hosts[host.address]
        if here.key in voters.latest.voters or here.key in voters.committed.voters:
            return False
        return not self.is_last_known(here, leader)

    def _retire_later(self, key: ReplicaKey) -> None:
        """Machines are switched off by the first partition's plan."""
