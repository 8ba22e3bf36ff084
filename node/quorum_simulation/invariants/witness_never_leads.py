"""A witness replicates and votes; it asks nobody for a vote and leads nothing."""

from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_simulation.host import SimulatedHost
from quorum_simulation.invariants.invariant import Invariant, Violation

_FORBIDDEN = (RoleName.PROSPECTIVE, RoleName.CANDIDATE, RoleName.LEADER)


class WitnessNeverLeads(Invariant):
    def role(self, host: SimulatedHost, change: RoleChanged) -> None:
        if host.config.witness and change.role in _FORBIDDEN:
            raise Violation(f"witness {host.address} became {change.role.value}")
