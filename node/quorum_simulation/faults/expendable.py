"""Which disks can be lost for good without losing the quorum.

Owns the count of disks in every voter set that may be in effect. Must not know why a disk fails.
"""

from uuid import UUID

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.voters import VoterSet
from quorum_node.records.identity import ReplicaKey
from quorum_simulation.alterations import survives_the_way
from quorum_simulation.cluster import Cluster
from quorum_simulation.host import SimulatedHost
from quorum_simulation.membership_plan import MembershipPlan


def survives_without(cluster: Cluster, plan: MembershipPlan, gone: SimulatedHost) -> bool:
    """Whether a majority of disks remains in every voter set that is or may soon be in effect.

    Soon: the plan may be removing a member or adding this one without knowing of its death.
    """
    if gone not in plan.wanted:
        return False
    if cluster.with_witness and not gone.config.witness:
        return False  # it may have the last copy that a leader could use
    return all(_survives_in(each, cluster, plan, gone) for each in cluster.partitions)


def _survives_in(
    cluster: Cluster, first: Cluster, plan: MembershipPlan, gone: SimulatedHost
) -> bool:
    gone = cluster.hosts[gone.address]
    wanted = {cluster.hosts[host.address].key for host in plan.wanted}
    for host in cluster.hosts.values():
        if not host.has_run or host.retired:
            continue  # this voter set is not in effect on any live host
        committed = host.replica.voters.committed.offset
        for entry in host.replica.voters.entries:
            if entry.offset < committed:
                continue
            if not _set_survives(cluster, entry.voters, gone, wanted):
                return False
            targets = [entry.record.target_voters]
            if plan.by_target or cluster is not first:
                successor = ReplicaKey(gone.key.id, UUID(int=0))
                targets += [tuple(wanted), (*(wanted - {gone.key}), successor)]
            if not _targets_survive(cluster, entry.voters, gone, targets):
                return False
    return True


def _set_survives(
    cluster: Cluster, voters: VoterSet, gone: SimulatedHost, wanted: set[ReplicaKey]
) -> bool:
    keys = voters.ordered_keys
    if not keys:
        return True
    if gone.key not in keys:
        keys = (*keys, gone.key)  # a wanted member: it may be in the process of being added
    leaving = [key for key in keys if key not in wanted and key != gone.key]
    for left in (keys, *(tuple(k for k in keys if k != key) for key in leaving)):
        hosts = [cluster.host_of(key) for key in left if key != gone.key]
        alive = sum(each is not None and not each.machine.counts_as_lost for each in hosts)
        if alive < majority(len(left)):
            return False
    return True


def _targets_survive(
    cluster: Cluster,
    voters: VoterSet,
    gone: SimulatedHost,
    targets: list[tuple[ReplicaKey, ...] | None],
) -> bool:
    """Also on the way to the target voters, which a leader goes by itself."""
    lost = {host.key for host in cluster.hosts.values() if host.machine.counts_as_lost}
    dead = lost | {gone.key}
    return all(
        target is None or survives_the_way(voters.ordered_keys, target, dead) for target in targets
    )
