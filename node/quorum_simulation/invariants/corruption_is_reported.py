"""A flipped bit on a disk is detected within a bound, or the file with it was deleted.

Detected: the process ended with a storage failure, or set a snapshot aside. Only time counts in which the process could
read. No process starts on a damaged quorum-state, which contains its vote and its epoch.
"""

from quorum_node.raft.outputs import Halt, HaltReason
from quorum_node.storage.quorum_state import FILE_NAME as QUORUM_STATE
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation
from quorum_simulation.machine import Rot

BOUND_MS = 2500.0
LOOK_EVERY_MS = 200.0


class CorruptionIsReported(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._reported: set[str] = set()
        self._states: dict[str, Rot] = {}
        """Flipped bits of quorum-state, by address."""

    def started(self, host: SimulatedHost) -> None:
        rot = self._states.get(host.address)
        if rot is not None and host.machine.holds(rot):
            raise Violation(
                f"{host.address} starts, with byte {rot.position} of {rot.path} damaged"
            )

    def halted(self, host: SimulatedHost, output: Halt) -> None:
        self._ended(host, output.reason)

    def refused_to_start(self, host: SimulatedHost, reason: HaltReason, detail: str) -> None:
        self._ended(host, reason)

    def rotted(self, host: SimulatedHost, rot: Rot) -> None:
        if rot.path.name == QUORUM_STATE:
            self._states[host.address] = rot
        self.cluster.scheduler.after(LOOK_EVERY_MS, self._look, host, rot, 0.0)

    def _ended(self, host: SimulatedHost, reason: HaltReason) -> None:
        if reason is HaltReason.STORAGE_FAILED:
            self._reported.add(host.address)

    def _look(self, host: SimulatedHost, rot: Rot, waited_ms: float) -> None:
        if host.address in self._reported or host.retired or not host.machine.holds(rot):
            return
        now_ms = self.cluster.scheduler.now_ms
        if host.up and now_ms >= host.frozen_until_ms:
            waited_ms += LOOK_EVERY_MS
        if waited_ms > BOUND_MS:
            raise Violation(
                f"{host.address}: byte {rot.position} of {rot.path.name} turned over, and nobody has"
                f" noticed for {waited_ms:.0f} ms"
            )
        self.cluster.scheduler.after(LOOK_EVERY_MS, self._look, host, rot, waited_ms)
