"""Slow, broken and lost disks, and damaged downloads."""

from collections.abc import Sequence

from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.faults.phases import DOWNLOADING


class DiskFaults:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (
            Kind("slow disk", self._slow_disk),
            Kind("EIO", self._disk_breaks),
            Kind("lost disk", self._disk_lost),
            Kind("damaged download", self._damage_download, (DOWNLOADING,)),
        )

    def heal(self) -> None:
        """See `Family`."""
        for host in self._context.cluster.hosts.values():
            host.machine.sync_delay_ms = 0.0

    def _slow_disk(self) -> bool:
        hosts = self._context.up_hosts()
        if not hosts:
            return False
        machine = self._context.one_of(hosts).machine
        machine.sync_delay_ms = 5 + self._context.random.random() * 80
        self._context.later(200, 2000, setattr, machine, "sync_delay_ms", 0.0)
        return True

    def _disk_breaks(self) -> bool:
        host = self._context.expendable()
        if host is None:
            return False
        host.machine.break_disk()
        # The process may be idle: its operator detects the failure after a while at the latest.
        self._context.later(200, 600, self._context.bury, host)
        return True

    def _disk_lost(self) -> bool:
        host = self._context.expendable()
        if host is None:
            return False
        host.machine.break_disk()
        self._context.bury(host)
        return True

    def _damage_download(self) -> bool:
        """Flip bits in the downloaded part of a snapshot, on the way or on the disk."""
        random = self._context.random
        found = [
            host.machine.files.file(path)
            for host in self._context.up_hosts()
            if not host.disk.broken
            for path in host.snapshots.partial_files()
        ]
        partials = [file for file in found if file is not None and file.content]
        if not partials:
            return False
        damaged = random.choice(partials)
        damaged.flip(random.randrange(len(damaged.content)), random.randrange(8))
        return True
