"""A read is never older than any write that was acknowledged before the read began."""

from quorum_node.simulation.invariants.invariant import Invariant, Violation


class LinearizableReads(Invariant):
    def read_done(self, started_after_offset: int, offset: int, read_id: int) -> None:
        if offset < started_after_offset:
            raise Violation(
                f"read {read_id} answers offset {offset}, but {started_after_offset} was"
                " acknowledged before it began"
            )
