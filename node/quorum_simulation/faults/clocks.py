"""Clocks that run at different rates, and clocks that jump."""

from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.machine import Machine

DAY_MS = 86_400_000.0


class ClockFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("clock rates", self._rates),
            Kind("clock jump", self._jump),
            Kind("wall clock", self._wall_clock),
        )

    def heal(self) -> None:
        """See `Family`."""
        for machine in self._machines():
            machine.clock.run_at(1.0)

    def _machines(self) -> list[Machine]:
        return [host.machine for host in self._context.cluster.hosts.values()]

    def _rates(self) -> bool:
        """Give every machine its own rate; the fastest may run four times as fast as the slowest."""
        random = self._context.random
        struck = self._machines()
        for machine in struck:
            machine.clock.run_at(0.5 + random.random() * 1.5)
        self._context.later(4000, 12_000, self.heal)
        return bool(struck)

    def _jump(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        random = self._context.random
        leader = self._context.some_leader() if random.random() < 0.4 else None
        host = leader or self._context.one_of(hosts)
        host.machine.clock.jump(200 + random.random() * 6000)
        return True

    def _wall_clock(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        random = self._context.random
        self._context.one_of(hosts).machine.clock.set_wall((random.random() * 2 - 1) * DAY_MS)
        return True
