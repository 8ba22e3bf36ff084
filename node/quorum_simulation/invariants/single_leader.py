"""At most one leader per epoch (KIP-595: "for each epoch there will be only one leader")."""

from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation


class SingleLeader(Invariant):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._leaders: dict[int, tuple[ReplicaKey, int]] = {}

    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        if change.role is not RoleName.LEADER:
            return
        leader = (host.key, host.run)
        known = self._leaders.setdefault(change.leader_epoch, leader)
        if known != leader:
            raise Violation(f"epoch {change.leader_epoch} has two leaders: {known} and {leader}")
