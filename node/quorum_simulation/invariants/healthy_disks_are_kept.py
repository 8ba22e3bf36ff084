"""No disk is called failed unless something was wrong with it.

A power cut, a killed process or a full disk is no reason: whoever took its traces for damage would lose all voters at
once in a power cut. The faults say what they did to a disk (`Machine.disk_faults`).
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
