"""A simulated machine: one process with a replica of every quorum partition, and one disk.

Owns what the replicas share (K595-31): they crash, freeze, start and are switched off together, and
a disk that breaks or is full is everyone's. Must not know what a replica does, nor the story.
"""

from typing import TYPE_CHECKING

from quorum_node.raft.events import ShutdownRequested, StorageFailed
from quorum_node.raft.outputs import Halt, HaltReason

if TYPE_CHECKING:
    from quorum_node.simulation.host import SimulatedHost

EXIT_MS = 0.5
"""How long a process that halted still lives."""


class Machine:
    """`replicas` by partition. `retired`: never started again (failed disk, or removed for good)."""

    def __init__(self) -> None:
        self.replicas: list[SimulatedHost] = []
        self.frozen_until_ms = 0.0
        self.retired = False
        self.disk_broken = False
        self.disk_full = False
        self.sync_delay_ms = 0.0
        self._ends = False

    @property
    def first(self) -> "SimulatedHost":
        """The replica of partition 0, which stands for the machine."""
        return self.replicas[0]

    def start(self) -> None:
        """Start the process."""
        assert not self.retired
        self.frozen_until_ms, self._ends = 0.0, False
        for replica in self.replicas:
            replica.start_replica()

    def crash(self) -> None:
        """kill -9 and power loss in one."""
        for replica in self.replicas:
            replica.crash_replica()

    def request_shutdown(self) -> None:
        """SIGTERM."""
        for replica in self.replicas:
            replica.handle(replica.run, ShutdownRequested())

    def halted(self, output: Halt) -> None:
        """A replica halted: with the last one that was asked to stop, or the first one that failed."""
        if self._ends:
            return
        if output.reason is HaltReason.SHUTDOWN:
            self._ends = all(replica.halted is not None for replica in self.replicas)
        else:
            self._ends = True
            full = output.reason is HaltReason.DISK_FULL
            for replica in self.replicas:
                if replica.halted is None:
                    replica.driver.handle(StorageFailed(output.detail, disk_full=full))
                replica.halted = output.reason
        if self._ends:
            self.first.cluster.scheduler.after(EXIT_MS, self._exit, self.first.run)

    def _exit(self, run: int) -> None:
        first = self.first
        if run == first.run and first.up:
            self.crash()
            first.cluster.host_halted(first)
