"""No leader counts a voter for offsets that it no longer has.

A disk may be restored to an older state. A leader that has answered a fetch of the replica since counts it with its
present log only.
"""

from quorum_node.raft.errors import RaftError
from quorum_node.raft.leadership import Leader
from quorum_node.raft.messages import FetchResponse, Response
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class GoneCopiesDoNotCount(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._heard: set[tuple[str, int, int, int]] = set()
        """(address and run of a voter, leader id and epoch) of every accepted fetch."""

    def responded(self, host: SimulatedHost, request_id: int, response: Response) -> None:
        """Note an accepted fetch; other responses come from other replicas or are refusals."""
        waiting = host.waiting.get(request_id)
        if waiting is None or not isinstance(response, FetchResponse):
            return
        if response.error is RaftError.NONE and waiting.source.machine.went_back:
            epoch = response.leader.leader_epoch
            self._heard.add((waiting.source.address, waiting.run, host.key.id, epoch))

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
