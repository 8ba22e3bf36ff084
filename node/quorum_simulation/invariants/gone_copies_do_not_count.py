"""No leader counts a voter for offsets that it no longer holds.

A disk may come back as it was a while ago. As soon as its replica has fetched from a leader and got an answer, that
leader takes it for no more than it has.
"""

from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchResponse, InboundResponse
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class GoneCopiesDoNotCount(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._heard: set[tuple[str, int, int, int]] = set()
        """(address and run of a voter, leader id and epoch) of every answer to a fetch."""

    def answered(self, host: SimulatedHost, response: InboundResponse) -> None:
        if host.machine.went_back and isinstance(response, FetchResponse):
            told = response.leader
            self._heard.add((host.address, host.run, told.leader_id, told.leader_epoch))

    def high_watermark(self, host: SimulatedHost, offset: int) -> None:
        role = host.replica.role
        if not isinstance(role, Leader):
            return
        for key in host.replica.voters.latest.voters.ordered_keys:
            voter, progress = self.cluster.host_of(key), role.progress.get(key)
            if voter is None or progress is None or not voter.up or not voter.machine.went_back:
                continue
            heard = (voter.address, voter.run, host.key.id, host.replica.epoch)
            if heard in self._heard and progress.end_offset > voter.log.end_offset:
                raise Violation(
                    f"{host.address} counts {voter.address} up to {progress.end_offset}, and it has"
                    f" no more than {voter.log.end_offset}"
                )
