"""A read, on whatever replica, is never older than any write that was acknowledged before it began.

What is read is the replica's own committed state at the moment of the confirmation.
"""

from typing import TYPE_CHECKING

from quorum_node.raft.outputs import ReadConfirmed
from quorum_simulation.invariants.invariant import Invariant, Violation

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost


class LinearizableReads(Invariant):
    def read_done(
        self, host: "SimulatedHost", started_after_offset: int, output: ReadConfirmed
    ) -> None:
        state_offset = host.replica.high_watermark
        if state_offset < output.offset:
            raise Violation(
                f"{host.address} confirms read {output.read_id} for offset {output.offset},"
                f" and has only {state_offset} itself"
            )
        if output.offset < started_after_offset:
            raise Violation(
                f"{host.address} answers read {output.read_id} as of offset {output.offset},"
                f" but {started_after_offset} was acknowledged before it began"
            )
