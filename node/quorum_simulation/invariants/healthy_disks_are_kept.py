"""No healthy disk is reported as failed.

A power failure, a killed process or a full disk is no reason: if their traces were taken for damage, a power failure
could cost all voters at once. The faults record their effects on a disk (`Machine.disk_faults`).
"""

from quorum_node.raft.outputs import Halt, HaltReason
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class HealthyDisksAreKept(Invariant):
    def halted(self, host: SimulatedHost, output: Halt) -> None:
        self._check(host, output.reason, output.detail)

    def refused_to_start(self, host: SimulatedHost, reason: HaltReason, detail: str) -> None:
        self._check(host, reason, detail)

    def _check(self, host: SimulatedHost, reason: HaltReason, detail: str) -> None:
        machine = host.machine
        if reason is HaltReason.STORAGE_FAILED and not machine.disk_faults:
            raise Violation(f"{host.address} gives up a healthy disk: {detail}")
        if reason is HaltReason.DISK_FULL and not machine.was_full:
            raise Violation(f"{host.address} ends, its disk not being full: {detail}")
