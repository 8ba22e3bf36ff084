"""AlterQuorum in a history: target voters are set, changed, cancelled and awaited.

Owns the requests to the leader while members change by a target instead of one by one. Must not know faults, nor
which members are wanted.
"""

from collections import Counter
from random import Random

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.alteration import compare, fits
from quorum_node.raft.errors import RaftError
from quorum_node.raft.messages import AlterQuorumRequest, Response, VoterChangeResponse
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import CLUSTER_ID, Cluster
from quorum_simulation.host import SimulatedHost

REQUEST_TIMEOUT_MS = 3000
CANCEL_SHARE = 0.01
"""Probability of a cancellation at each check of a plan in progress."""

Target = tuple[ReplicaKey, ...] | None


class Alterations:
    """Sends requests to one leader at a time. `counts`: requests and their results."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._random = random
        self.counts: Counter[str] = Counter()
        self._asking_until_ms = 0.0
        self._asked = 0

    def target_of(self, leader: SimulatedHost) -> Target:
        """Target voters in the leader's latest record."""
        return leader.replica.voters.latest.record.target_voters

    def pursue(self, leader: SimulatedHost, wanted: list[SimulatedHost], *, restless: bool) -> None:
        """Make the wanted members the target if they are not; cancel occasionally."""
        if self._cluster.scheduler.now_ms < self._asking_until_ms:
            return
        target = self.target_of(leader)
        if target is not None and self._means(target, wanted):
            if restless and self._random.random() < CANCEL_SHARE:
                self._ask(leader, None, "cancelled")
            return
        self._ask(leader, self._entries(wanted), "set" if target is None else "set again")

    def _means(self, target: tuple[ReplicaKey, ...], wanted: list[SimulatedHost]) -> bool:
        if any(entry.uuid is None and self._replicas_of(entry.id) > 1 for entry in target):
            # Its disk was lost in the meantime: an entry with the id alone matches the dead replica
            # as well.
            return False
        difference = compare(tuple(host.key for host in wanted), target)
        return not difference.new and not difference.removing

    def _entries(self, wanted: list[SimulatedHost]) -> tuple[ReplicaKey, ...]:
        """By key, or by id alone if only one replica ever had the id."""
        return tuple(
            ReplicaKey(host.key.id)
            if self._replicas_of(host.key.id) == 1 and self._random.random() < 0.5
            else host.key
            for host in wanted
        )

    def _replicas_of(self, node_id: int) -> int:
        return sum(host.key.id == node_id for host in self._cluster.hosts.values())

    def _ask(self, leader: SimulatedHost, target: Target, what: str) -> None:
        self._asked += 1
        asked = self._asked
        self._asking_until_ms = self._cluster.scheduler.now_ms + REQUEST_TIMEOUT_MS + 200
        request = AlterQuorumRequest(CLUSTER_ID, target, REQUEST_TIMEOUT_MS)

        def answered(response: Response) -> None:
            assert isinstance(response, VoterChangeResponse)
            if asked == self._asked:
                self._asking_until_ms = 0.0
            done = response.error is RaftError.NONE
            self.counts[what if done else f"{what}: {response.error.name}"] += 1

        self._cluster.ask(leader, request, answered)


def survives_the_way(
    voters: tuple[ReplicaKey, ...], target: tuple[ReplicaKey, ...], dead: set[ReplicaKey]
) -> bool:
    """Whether a majority of disks remains in every voter set on the way, in any order of the changes.

    A leader may not know of a death for a while and continue: live voters may be removed first, and dead ones added
    first.
    """
    plan = compare(voters, target)
    new, leaving = len(plan.new), len(plan.removing)
    alive_retained = sum(key not in dead for key in plan.retained)
    alive_leaving = sum(key not in dead for key in plan.removing)
    dead_new = sum(any(fits(each, key) for key in dead) for each in plan.new)
    added = removed = 0
    while True:
        size = len(plan.retained) + leaving - removed + added
        alive = alive_retained + max(0, alive_leaving - removed) + max(0, added - dead_new)
        if alive < majority(size):
            return False
        if added == new and removed == leaving:
            return True
        if new - added >= leaving - removed:
            added += 1
        else:
            removed += 1
