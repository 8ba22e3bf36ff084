"""Whether hosts are free for new members if no two members may share one (`spec.spread: Required`). Pure.

Owns the rule that delays a planned change before its first step: a new member runs beside the one that it replaces, so
the change needs one host more than there are members. A repair is never delayed: the pod of a failed member is
stopped before its successor is created, and a stopped member needs no host.
"""

from dataclasses import dataclass

from quorum_operator.planner.host_capacity import HostCapacity
from quorum_operator.planner.observed import Incarnation
from quorum_operator.planner.situation import Situation, Slot
from quorum_operator.planner.step import Step, Wait

LOOK_AGAIN_S = 10.0
"""Hosts are looked up again after this time, because a new host causes no event here."""
_NAMED = 6


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too few free hosts for planned new members."""

    wanted: int
    """Number of hosts that have to be free before the change continues."""
    free: int
    hosts: tuple[str, ...]
    """All hosts that members may run on."""

    @property
    def text(self) -> str:
        """Text for users."""
        more = " …" if len(self.hosts) > _NAMED else ""
        named = f" ({', '.join(self.hosts[:_NAMED])}{more})" if self.hosts else ""
        return (
            f"spec.spread is Required, and of the {len(self.hosts)} hosts that members may run on{named} {self.free} are"
            f" free, but {self.wanted} are needed"
        )


def planned(at: Situation) -> tuple[Slot, ...]:
    """Slots of new members that have not been created yet and are not part of a repair."""
    if at.view is None or not at.view.formed:
        return ()
    lost = {entry.key.id for entry in at.leaving if entry.dead}
    voters = {key.id for key in at.voters}

    def repairs(slot: Slot) -> bool:
        return slot.node_id in lost or (slot.replaces is not None and slot.node_id not in voters)

    return tuple(slot for slot in at.slots if slot.incarnation is None and not repairs(slot))


def shortage(at: Situation) -> Shortage | None:
    """The shortage that delays planned new members; None if there is none, or the hosts were not read."""
    hosts, held = at.seen.host_capacities, planned(at)
    if hosts is None or not held:
        return None
    made = sum(1 for slot in at.slots if slot.incarnation is not None)
    repairs = len(at.slots) - made - len(held)
    # A replacement frees a host for the next one. Additional members need all hosts at once.
    wanted = max(1, at.target - len(at.voters) - made)
    free = max(_free(at, hosts) - repairs, 0)
    if free >= wanted:
        return None
    return Shortage(wanted, free, tuple(sorted(each.name for each in hosts)))


def plan_held_move(at: Situation) -> Step | None:
    """The step while a planned change waits for hosts, and there is no other step."""
    found = shortage(at)
    if found is None:
        return None
    return Wait("a planned change has not started", found.text, LOOK_AGAIN_S)


def _free(at: Situation, hosts: tuple[HostCapacity, ...]) -> int:
    """Number of hosts that no member uses or returns to. A member without an assigned host counts as using one."""
    taken: set[str] = set()
    homeless = 0
    for each in at.seen.incarnations:
        places = _places(each)
        if places is None:
            continue
        found = {host.name for host in hosts if places & {host.name, host.domain}}
        taken |= found
        homeless += not places
    return len(hosts) - len(taken) - homeless


def _places(each: Incarnation) -> set[str] | None:
    """The host of its pod, else the only host that its volume is tied to; empty if unassigned. None: it needs no host."""
    pod = each.pod
    runs = each.replicas > 0 and each.failed is None
    if not runs and (pod is None or pod.deleting):
        return None  # the scheduler does not count terminating pods
    if pod is not None and pod.host is not None:
        return {pod.host}
    if not runs:
        return None
    hosts = each.volume.hosts if each.volume is not None else ()
    return set(hosts) if len(hosts) == 1 else set()
