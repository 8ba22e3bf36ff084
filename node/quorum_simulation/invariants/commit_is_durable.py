"""A leader's commit is durable on a majority of the voters, of the latest set and the committed one.

Counts durable bytes of the simulated disks, not reported offsets. A disk that was lost since counts with its former
content. Nothing is committed in an epoch before a record of that epoch is.
"""

from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation
from quorum_simulation.voter_records import VoterRecords


class CommitIsDurable(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._records = VoterRecords()
        self._before: dict[tuple[str, int], int] = {}

    def started(self, host: SimulatedHost) -> None:
        self._before[(host.address, host.run)] = host.opened_state.applied_offset

    def appended(
        self, host: SimulatedHost, data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None:
        self._records.appended(host, data, base_offset, epoch)

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        run = (host.address, host.run)
        before, self._before[run] = self._before[run], offset
        if not host.is_leader:
            return
        last = host.log.batch_at(offset - 1)
        if last is None or last[2] != host.replica.epoch:
            raise Violation(f"{host.address} commits {last} in epoch {host.replica.epoch}")
        for voters in self._records.sets_in_force(host, before):
            have = [key for key in voters.ordered_keys if self._has(key, last)]
            if len(have) * 2 <= len(voters):
                raise Violation(
                    f"{host.address} commits up to {offset}, durable only on"
                    f" {[str(key.id) for key in have]} of {[str(v.key.id) for v in voters]}"
                )

    def _has(self, key: ReplicaKey, batch: tuple[int, int, int, int]) -> bool:
        host = self.cluster.host_of(key)
        if host is None:
            return False
        if host.disk.broken or not host.up:
            # the data of a dead machine can't be checked; it was alive when it acknowledged
            return True
        if host.log.start_offset >= batch[1]:
            return True  # covered by a snapshot, which contains committed records only
        end_offset = host.log.durable_end_offset()
        return end_offset >= batch[1] and host.log.batch_at(batch[0]) == batch
