"""The activity of a quorum when a fault strikes.

Owns the names of the phases and how they are determined. Must not know any fault.
"""

from quorum_node.raft.leadership import ChangePhase, Leader
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan

DOWNLOADING = "downloading"
PHASES = ("steady", "electing", "catching up", "changing", DOWNLOADING)


def phase_of(cluster: Cluster, plan: MembershipPlan, wanted: str) -> str:
    """Return the present phase; a download counts only if that phase is wanted."""
    hosts = cluster.hosts.values()
    if wanted == DOWNLOADING and any(host.up and host.is_downloading for host in hosts):
        return wanted
    leader = cluster.leader
    if leader is None or not _leads(leader):
        return "electing"
    role = leader.replica.role
    assert isinstance(role, Leader)
    change = role.change
    if not leader.replica.voters.latest_is_committed:
        return "changing"
    if change is not None and change.phase is ChangePhase.COMMITTING:
        return "changing"
    if change is not None or plan.newcomer_waits():
        return "catching up"
    return "steady"


def _leads(host: SimulatedHost) -> bool:
    role = host.replica.role
    return isinstance(role, Leader) and role.own_epoch_committed
