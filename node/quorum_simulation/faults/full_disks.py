"""Full disks, which fail at a write or, as with a shared pool, only at a sync.

Such a disk is healthy. It accepts no log, quorum-state or snapshot until there is room again.
"""

from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost


class FullDisks:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("disk full", lambda: self._begin(at_sync=False)),
            Kind("disk full at sync", lambda: self._begin(at_sync=True)),
            Kind("pool full", self._pool),
        )

    def heal(self) -> None:
        """See `Family`."""
        for host in self._context.cluster.hosts.values():
            host.machine.files.full = host.machine.files.full_at_sync = False

    def _begin(self, *, at_sync: bool) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        self._fill(self._context.one_of(hosts), at_sync=at_sync)
        return True

    def _pool(self) -> bool:
        """All disks of the quorum are volumes of one pool: the quorum stops, and no member is replaced."""
        hosts = self._context.up_hosts()
        for host in hosts:
            self._fill(host, at_sync=True)
        return bool(hosts)

    def _fill(self, host: SimulatedHost, *, at_sync: bool) -> None:
        files = host.machine.files
        files.full, files.full_at_sync = not at_sync, at_sync
        host.machine.was_full = True
        self._context.later(200, 1500, self._mend, host)

    def _mend(self, host: SimulatedHost) -> None:
        host.machine.files.full = host.machine.files.full_at_sync = False
        self._context.restart(host)
