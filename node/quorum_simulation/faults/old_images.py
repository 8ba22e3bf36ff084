"""Disks that are restored to an older state under the same UUID, such as a volume from a snapshot.

The replica does not notice it. Records that it acknowledged since are lost, and so are its votes. A quorum can't
survive this at any time, so it is done only if enough other replicas have everything, there is no election, and the
voters are still the same.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from quorum_node.quorum_arithmetic import majority
from quorum_node.raft.leadership import Leader
from quorum_node.raft.roles import Follower
from quorum_simulation.cluster import Cluster
from quorum_simulation.faults.family import FaultContext, Kind
from quorum_simulation.files.file_system import Image
from quorum_simulation.host import SimulatedHost
from quorum_simulation.machine import Machine

TAKE_EVERY_MS = 350.0
KEPT = 8


@dataclass(frozen=True, slots=True)
class _Kept:
    machine: Machine
    image: Image
    voters: tuple[tuple[int, bool], ...]
    """Offset of the voters record of each partition, and whether it was committed."""


class OldImages:
    """See the module."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._images: deque[_Kept] = deque(maxlen=KEPT)
        self._ended = False
        context.cluster.scheduler.after(TAKE_EVERY_MS, self._take)

    def kinds(self) -> Sequence[Kind]:
        """See `Family`."""
        return (Kind("older image", self._come_back, ("steady", "catching up")),)

    def heal(self) -> None:
        """See `Family`."""
        self._ended = True
        self._images.clear()

    def _take(self) -> None:
        """Take an image of one disk at any moment."""
        if self._ended:
            return
        self._context.later(0.5 * TAKE_EVERY_MS, 1.5 * TAKE_EVERY_MS, self._take)
        hosts = self._context.up_hosts()
        if hosts:
            machine = self._context.random.choice(hosts).machine
            self._images.append(_Kept(machine, machine.files.image(), _voters_of(machine)))

    def _come_back(self) -> bool:
        usable = [each for each in self._images if self._may_come_back(each)]
        if not usable:
            return False
        kept = self._context.random.choice(usable)
        self._images = deque((e for e in self._images if e.machine is not kept.machine), KEPT)
        kept.machine.go_back(kept.image)
        self._context.later(2, 400, self._context.restart, kept.machine.first)
        return True

    def _may_come_back(self, kept: _Kept) -> bool:
        machine, cluster = kept.machine, self._context.cluster
        if not machine.first.up or machine.retired or kept.voters != _voters_of(machine):
            return False
        if cluster.with_witness and not machine.first.config.witness:
            return False
        hosts = [host for host in cluster.hosts.values() if not host.retired]
        if any(not host.up or host.machine.counts_as_lost for host in hosts):
            return False
        return all(_would_survive(each, machine) for each in cluster.partitions)


def _voters_of(machine: Machine) -> tuple[tuple[int, bool], ...]:
    voters = [replica.replica.voters for replica in machine.replicas]
    return tuple((each.latest.offset, each.latest_is_committed) for each in voters)


def _would_survive(cluster: Cluster, machine: Machine) -> bool:
    """Whether enough others have all records that this replica may have acknowledged, and none of them may need its vote."""
    host = cluster.hosts[machine.first.address]
    leader = cluster.leader
    if leader is None or leader is host:
        return False
    role, voters = leader.replica.role, leader.replica.voters
    if not isinstance(role, Leader) or not role.own_epoch_committed or role.change is not None:
        return False
    if not voters.latest_is_committed or voters.latest.record.target_voters is not None:
        return False
    if leader.replica.ids_only or host.replica.voters.latest.offset != voters.latest.offset:
        return False
    keys = voters.latest.voters.ordered_keys
    others = [each for each in cluster.hosts.values() if not each.retired and each is not host]
    if host.key not in keys or any(_may_campaign(each, leader) for each in others):
        return False
    needed = max(leader.replica.high_watermark, host.log.end_offset)
    holding = [
        each for each in others if each.key in keys and each.log.durable_end_offset() >= needed
    ]
    return len(holding) >= majority(len(keys))


def _may_campaign(other: SimulatedHost, leader: SimulatedHost) -> bool:
    replica = other.replica
    if other is leader:
        return False
    if other.key not in replica.voters.latest.voters:
        return False  # an observer, according to its own state
    follows = isinstance(replica.role, Follower) and replica.leader_id == leader.key.id
    same_voters = replica.voters.latest.offset == leader.replica.voters.latest.offset
    return not (follows and same_voters and replica.epoch == leader.replica.epoch)
