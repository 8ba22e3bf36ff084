"""A running replica's high watermark never goes back, nor beyond its log."""

from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class HighWatermarkMonotonic(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._last: dict[tuple[str, int], int] = {}

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        run = (host.address, host.run)
        before = self._last.get(run, 0)
        if offset < before:
            raise Violation(f"{host.address}: high watermark {before} → {offset}")
        if offset > host.log.end_offset:
            raise Violation(f"{host.address}: high watermark {offset} beyond {host.log.end_offset}")
        self._last[run] = offset
