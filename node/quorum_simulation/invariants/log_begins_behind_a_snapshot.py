"""A log that lacks its beginning begins behind a snapshot that is verified and durable.

And whenever a process starts or a log begins anew, the replica takes the voters of that snapshot and of the log behind it for
its own, not what it held before (KIP-853), nor what has rotted there since.
"""

from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation
from quorum_simulation.voter_records import VoterRecords


class LogBeginsBehindASnapshot(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._records = VoterRecords()

    def appended(
        self, host: SimulatedHost, data: bytes, base_offset: int, end_offset: int, epoch: int
    ) -> None:
        self._records.appended(host, data, base_offset, epoch)

    def started(self, host: SimulatedHost) -> None:
        self.log_started(host)

    def log_started(self, host: SimulatedHost) -> None:
        start = host.log.start
        if start != NO_SNAPSHOT:
            self._check_start(host, start)
        self._check_voters(host)

    def _check_start(self, host: SimulatedHost, start: SnapshotId) -> None:
        if start not in host.disk.snapshots:
            raise Violation(f"{host.address}: the log begins behind {start}, which is not there")
        if host.replica.start != start:
            raise Violation(f"{host.address} believes in {host.replica.start}, it is {start}")

    def _check_voters(self, host: SimulatedHost) -> None:
        sets = self._records.of_log(host)
        latest = host.replica.voters.latest
        if sets and (latest.offset, latest.voters.ordered_keys) != (
            sets[-1][0],
            sets[-1][1].ordered_keys,
        ):
            raise Violation(
                f"{host.address} has voters {latest.voters.ordered_keys} at {latest.offset}, its"
                f" snapshot and log say {sets[-1]}"
            )
