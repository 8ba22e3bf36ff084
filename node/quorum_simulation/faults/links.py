"""Links that are cut, in both directions or in one, and connections that are closed."""

from collections.abc import Sequence

from quorum_node.quorum_arithmetic import majority
from quorum_simulation.faults.family import FaultContext, Kind


class LinkFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._cluster = context.cluster
        self._random = context.random

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("partition", self._partition),
            Kind("isolate leader", self._isolate_leader),
            Kind("leader with few", self._leader_with_few),
            Kind("one-way cut", self._one_way_cut),
            Kind("close connections", self._close_connections),
        )

    def heal(self) -> None:
        """See `Family`."""
        self._cluster.network.blocked.clear()

    def _partition(self) -> bool:
        addresses = list(self._cluster.hosts)
        left = {address for address in addresses if self._random.random() < 0.5}
        return self._cut({(a, b) for a in left for b in addresses if b not in left}, both_ways=True)

    def _isolate_leader(self) -> bool:
        leader = self._context.some_leader()
        if leader is None:
            return False
        others = [a for a in self._cluster.hosts if a != leader.address]
        struck = self._cut({(leader.address, other) for other in others}, both_ways=True)
        if self._random.random() < 0.5:
            # Resets still arrive: the other hosts detect the cut at once, the old leader does not.
            self._context.reset_connections(leader.address)
        return struck

    def _leader_with_few(self) -> bool:
        """Hosts that stay with a leader without majority: observers, and too few voters."""
        leader = self._cluster.leader
        if leader is None:
            return False
        voters = leader.replica.voters.latest.voters
        room = majority(len(voters)) - 2  # in addition to the leader
        side = {leader.address}
        up_hosts = self._context.up_hosts()
        for host in self._random.sample(up_hosts, len(up_hosts)):
            is_voter = host.key in voters
            if host is not leader and (room > 0 or not is_voter):
                side.add(host.address)
                room -= is_voter
        pairs = {(a, b) for a in side for b in self._cluster.hosts if b not in side}
        if self._random.random() < 0.7:
            # The other hosts detect the cut at once; those on this side keep their leader.
            self._cluster.network.close_between({(b, a) for a, b in pairs})
        return self._cut(pairs, both_ways=True)

    def _one_way_cut(self) -> bool:
        addresses = list(self._cluster.hosts)
        if len(addresses) < 2:
            return False
        source = self._random.choice(addresses)
        return self._cut({(source, other) for other in addresses if other != source})

    def _cut(self, pairs: set[tuple[str, str]], both_ways: bool = False) -> bool:
        if both_ways:
            pairs = pairs | {(b, a) for a, b in pairs}
        blocked = self._cluster.network.blocked
        fresh = pairs - blocked
        blocked |= fresh
        self._context.later(100, 3000, blocked.difference_update, fresh)
        return bool(fresh)

    def _close_connections(self) -> bool:
        hosts = self._context.up_hosts()
        if hosts:
            self._context.reset_connections(self._context.one_of(hosts).address)
        return bool(hosts)
