"""Power failures: in the middle of a disk operation, during a start, or of all machines; and killed processes."""

from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost

CALLS = 14
"""The power fails before one of this number of calls that change the disk."""


class PowerFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("kill", self._kill),
            Kind("power cut in a write", self._in_a_write),
            Kind("power cut in a start", self._in_a_start),
            Kind("power cut of all", self._of_all),
        )

    def heal(self) -> None:
        """See `Family`."""
        for host in self._context.cluster.hosts.values():
            host.machine.files.calls_left = None

    def _some_host(self) -> SimulatedHost | None:
        hosts = self._context.up_hosts()
        if not hosts:
            return None
        leader = self._context.some_leader() if self._context.random.random() < 0.4 else None
        return leader or self._context.one_of(hosts)

    def _kill(self) -> bool:
        """Kill the process; its writes are in the page cache of the running kernel."""
        host = self._some_host()
        if host is not None:
            host.machine.crash(power=False)
            self._context.later(5, 800, self._context.restart, host)
        return host is not None

    def _in_a_write(self) -> bool:
        host = self._some_host()
        if host is not None:
            host.machine.files.calls_left = self._context.random.randrange(CALLS)
            self._context.later(5, 500, self._cut_at_last, host, host.run)
        return host is not None

    def _cut_at_last(self, host: SimulatedHost, run: int) -> None:
        """Cut the power now if the process has written nothing since."""
        if host.up and host.run == run and host.machine.files.calls_left is not None:
            host.machine.crash()
        # otherwise a later cut would leave the host down for good
        host.machine.files.calls_left = None
        self._context.later(5, 1000, self._context.restart, host)

    def _in_a_start(self) -> bool:
        host = self._some_host()
        if host is not None:
            host.machine.crash(power=self._context.random.random() < 0.5)
            self._context.later(5, 500, self._start_and_cut, host)
        return host is not None

    def _start_and_cut(self, host: SimulatedHost) -> None:
        host.machine.files.calls_left = self._context.random.randrange(CALLS)
        self._context.restart(host)
        self._context.later(1, 20, self._cut_at_last, host, host.run)

    def _of_all(self) -> bool:
        """Cut the power of all machines at once; each comes back at a random time."""
        hosts = self._context.up_hosts()

        def crash() -> None:
            for host in self._context.up_hosts():
                host.machine.crash()
                self._context.later(5, 800, self._context.restart, host)

        if hosts:
            self._context.in_a_write(self._context.some_leader() or hosts[0], crash)
        return bool(hosts)
