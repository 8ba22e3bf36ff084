"""Consecutive voters records of a log differ in at most one replica key, and a leader writes the next
one only when the last is committed (KIP-853; a UUID change is two records)."""

from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation
from quorum_simulation.voter_records import VoterRecords


class OneChangeAtATime(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._records = VoterRecords()
        self._high_watermarks: dict[tuple[str, int], int] = {}
        self.changes = 0

    def started(self, host: SimulatedHost) -> None:
        state = host.opened_state
        self._high_watermarks[(host.address, host.run)] = state.applied_offset

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        self._high_watermarks[(host.address, host.run)] = offset

    def appended(
        self, host: SimulatedHost, data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None:
        if not self._records.appended(host, data, base_offset, epoch):
            return
        sets = self._records.of_log(host)
        if len(sets) < 2:
            return
        (before_offset, before), (_, after) = sets[-2:]
        changed = set(before.ordered_keys) ^ set(after.ordered_keys)
        if len(changed) > 1:
            raise Violation(f"{len(changed)} keys change at {base_offset}: {changed}")
        if not host.is_leader:
            return
        self.changes += bool(changed)
        if self._high_watermarks.get((host.address, host.run), 0) <= before_offset:
            raise Violation(
                f"{host.address} writes voters at {base_offset} while those at"
                f" {before_offset} are not committed"
            )
