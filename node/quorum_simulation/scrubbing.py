"""The scrub of a simulated replica: everything on its disk is read again, round after round.

Owns the rounds. The reading is storage's. Must not know which disks are damaged, but for one thing: on a disk to which
nothing has happened yet most rounds are skipped, as they find nothing and only take time.
"""

from typing import TYPE_CHECKING

from quorum_node.records.snapshot_format import CorruptSnapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.partition_directory import OpenPartition
from quorum_node.storage.scrub import scrub

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost

ROUND_MS = 1000.0
SKIPPED_SHARE = 0.8


class SimulatedScrub:
    """One run's."""

    def __init__(self, host: "SimulatedHost", opened: OpenPartition) -> None:
        self._host = host
        self._opened = opened
        self._run = host.run
        self._later()

    def _later(self) -> None:
        delay_ms = ROUND_MS * (0.5 + self._host.random.random())
        self._host.cluster.scheduler.after(delay_ms, self._round)

    def _round(self) -> None:
        host = self._host
        if self._run != host.run or not host.up or host.halted is not None:
            return
        self._later()
        if host.cluster.scheduler.now_ms < host.frozen_until_ms:
            return
        if host.machine.disk_faults or host.random.random() > SKIPPED_SHARE:
            host.machine.guarded(self._read)

    def _read(self) -> None:
        try:
            failure = scrub(list(self._opened.log.segments))
            if failure is not None:
                raise failure
            self._opened.state_file.check()
            for each in self._opened.snapshots.ids():
                self._verify(each)
        except (StorageFailure, DiskFull) as error:
            self._host.driver.flush_failed(error)

    def _verify(self, each: SnapshotId) -> None:
        try:
            self._opened.snapshots.scrub(each, lambda size_bytes: True)
        except CorruptSnapshot:
            self._opened.snapshots.set_aside(each)
            self._host.snapshots.set_aside(each)
