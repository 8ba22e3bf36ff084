"""A replica key votes for at most one candidate key in an epoch, and has the vote on disk first."""

from quorum_node.raft.messages import Response, VoteResponse
from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class OneVotePerEpoch(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def responded(self, host: SimulatedHost, request_id: int, response: Response) -> None:
        if not isinstance(response, VoteResponse) or not response.vote_granted:
            return
        request = self.cluster.network.vote_request(host, request_id)
        if request is None or request.pre_vote:
            return
        self._vote(host, request.candidate_epoch, request.candidate)

    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        if change.role is RoleName.LEADER:
            self._vote(host, change.leader_epoch, host.key)

    def _vote(self, host: SimulatedHost, epoch: int, candidate: ReplicaKey) -> None:
        known = self._votes.setdefault((host.key, epoch), candidate)
        if known != candidate:
            raise Violation(f"{host.key} voted for {known} and for {candidate} in epoch {epoch}")
        assert host.key.uuid is not None
        state = host.disk.durable_state(host.key.uuid)
        if state is None or state.leader_epoch < epoch:
            raise Violation(f"{host.key} tells a vote of epoch {epoch}, its disk says {state}")
        if state.leader_epoch == epoch and state.voted != candidate:
            raise Violation(f"{host.key} tells a vote for {candidate}, its disk says {state.voted}")
