"""The shape of a family of faults, and the context on which all of them act.

Owns the common functions: choosing targets, restarting processes, and marking disks as lost. Must not know
any kind of fault, nor when one strikes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from quorum_simulation.cluster import Cluster
from quorum_simulation.faults.expendable import survives_without
from quorum_simulation.faults.phases import PHASES
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault. `strike` returns whether it found a target. `phases`: those in which there can be targets.

    `on`: False while the node lacks the rule that is needed to survive this fault.
    """

    name: str
    strike: Callable[[], bool]
    phases: tuple[str, ...] = PHASES
    on: bool = True


class Family(Protocol):
    """Faults of one sort, in one file. One instance per history."""

    def kinds(self) -> Sequence[Kind]:
        """The kinds, in an order that never changes, because the next fault is drawn from it."""

    def heal(self) -> None:
        """End the faults: repair what does not recover without help."""


class FaultContext:
    """Cluster, membership plan and randomness of a history."""

    def __init__(self, cluster: Cluster, plan: MembershipPlan, random: Random) -> None:
        self.cluster = cluster
        self.plan = plan
        self.random = random

    def later(
        self, least_ms: float, most_ms: float, mend: Callable[..., None], *args: object
    ) -> None:
        """Call `mend` after a random time."""
        delay_ms = least_ms + self.random.random() * (most_ms - least_ms)
        self.cluster.scheduler.after(delay_ms, mend, *args)

    def in_a_write(self, host: SimulatedHost, action: Callable[[], None], tries: int = 80) -> None:
        """Run an action, usually when there is unsynced data: at other times little can be lost."""
        if tries == 80 and self.random.random() < 0.3:
            tries = 0
        if not host.up or host.log.has_unsynced or not tries:
            action()
            return
        self.cluster.scheduler.after(0.3, self.in_a_write, host, action, tries - 1)

    def up_hosts(self) -> list[SimulatedHost]:
        """Hosts whose process runs."""
        return [host for host in self.cluster.hosts.values() if host.up]

    def one_of(self, hosts: list[SimulatedHost]) -> SimulatedHost:
        """A random host, preferably one that downloads a snapshot."""
        busy = [host for host in hosts if host.is_downloading]
        return self.random.choice(busy if busy and self.random.random() < 0.5 else hosts)

    def some_leader(self) -> SimulatedHost | None:
        """The leader, of either partition if there are two, because faults strike machines."""
        leaders = [each.leader for each in self.cluster.partitions]
        led = [leader for leader in leaders if leader is not None]
        if not led:
            return None
        chosen = led[0] if len(led) == 1 else self.random.choice(led)
        return chosen.machine.first

    def restart(self, host: SimulatedHost) -> None:
        """Start a stopped process, if its disk permits."""
        if not host.up and not host.retired and not host.disk.broken and not host.disk.full:
            host.machine.start()

    def bury(self, host: SimulatedHost) -> None:
        """Mark the disk as lost: the member is replaced."""
        if host.retired:
            return
        host.machine.retired = True
        host.machine.crash()
        self.plan.replace_dead(host)

    def reset_connections(self, address: str) -> None:
        """Close every connection of a machine."""
        for partition in self.cluster.partitions:
            partition.network.close_connections(address)

    def expendable(self) -> SimulatedHost | None:
        """A host whose disk can be lost for good without losing the quorum."""
        hosts = [
            host for host in self.up_hosts() if survives_without(self.cluster, self.plan, host)
        ]
        members = self.cluster.hosts.values()
        if not hosts or any(h.machine.counts_as_lost and not h.retired for h in members):
            return None
        leader = self.some_leader()
        if leader in hosts and self.random.random() < 0.4:
            return leader
        return self.random.choice(hosts)
