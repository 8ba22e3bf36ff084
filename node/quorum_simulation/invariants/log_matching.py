"""Two logs that have a batch of the same offset and epoch are the same up to there (Raft, log matching).

By induction: a batch (offset, epoch) always has the same bytes and always follows a record of the same
epoch; the first of a log that begins behind a snapshot follows the last record of that.
"""

from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class LogMatching(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._batches: dict[tuple[int, int], tuple[int, int, int]] = {}

    def appended(
        self, host: SimulatedHost, data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None:
        before = host.log.batch_at(base_offset - 1)
        predecessor_epoch = before[2] if before is not None else host.log.start.epoch
        own = host.log.batch_at(base_offset)
        assert own is not None
        batch = (end_offset, own[3], predecessor_epoch)
        known = self._batches.setdefault((base_offset, epoch), batch)
        if known != batch:
            raise Violation(
                f"{host.address}: batch at {base_offset} of epoch {epoch} is {batch},"
                f" elsewhere {known} (end, CRC, epoch before)"
            )
