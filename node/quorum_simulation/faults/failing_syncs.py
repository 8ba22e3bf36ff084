"""A sync that fails once and then works: as in real file systems, unwritten data counts as written afterwards.

The process ends. Usually its failure mark stays and the operator replaces the disk. Safety must not depend on that, so
sometimes the mark is lost, and the process is started again on the same page cache.
"""

import errno
from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.host import SimulatedHost
from quorum_simulation.machine import FAILED_SYNCS

ERRORS = (errno.EIO, *FAILED_SYNCS, errno.ENOSPC, errno.EDQUOT)


class FailingSyncs:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (Kind("sync fails once", self._fails_once),)

    def heal(self) -> None:
        """See `Family`."""
        for host in self._context.cluster.hosts.values():
            host.machine.files.failing_sync = None

    def _fails_once(self) -> bool:
        error = self._context.random.choice(ERRORS)
        is_full = error not in FAILED_SYNCS
        loses_mark = is_full or self._context.random.random() < 0.6
        hosts = self._context.up_hosts()
        host = self._context.one_of(hosts) if loses_mark and hosts else self._context.expendable()
        if host is None:
            return False
        machine = host.machine
        if is_full:
            machine.was_full = True
        else:
            machine.disk_faults.append("a sync failed")
            machine.keeps_mark = not loses_mark
        machine.files.failing_sync = error
        self._context.later(500, 1500, self._is_over, host)
        return True

    def _is_over(self, host: SimulatedHost) -> None:
        """End the fault, even if there was nothing to sync."""
        host.machine.files.failing_sync = None
