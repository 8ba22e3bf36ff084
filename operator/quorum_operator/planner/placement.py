"""Whether there are hosts for new members where no two members may share one (`spec.spread: Required`). Pure.

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
    """Members that can't be made, as there is no host for them."""

    wanted: int
    """Hosts that have to be free before the move may go on."""
    free: int
    hosts: tuple[str, ...]
    """All that members may run on."""

    @property
    def text(self) -> str:
        """In words for people."""
        more = " …" if len(self.hosts) > _NAMED else ""
        named = f" ({', '.join(self.hosts[:_NAMED])}{more})" if self.hosts else ""
        return (
            f"spec.spread is Required, and of the {len(self.hosts)} hosts that members may run on{named} {self.free} are"
            f" free, but {self.wanted} are needed"
        )


def planned(at: Situation) -> tuple[Slot, ...]:
    """Places of newcomers that are to be made and stand in for nobody who is lost."""
    if at.view is None or not at.view.formed:
        return ()
    lost = {entry.key.id for entry in at.leaving if entry.dead}
    voters = {key.id for key in at.voters}

    def repairs(slot: Slot) -> bool:
        return slot.node_id in lost or (slot.replaces is not None and slot.node_id not in voters)

    return tuple(slot for slot in at.slots if slot.incarnation is None and not repairs(slot))


def shortage(at: Situation) -> Shortage | None:
    """Why no planned newcomer may be made now; None: it may, or nobody has looked at the hosts."""
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
    """What the plan says while a move is held back and nothing else is to be done."""
    found = shortage(at)
    if found is None:
        return None
    return Wait("a planned change has not started", found.text, LOOK_AGAIN_S)


def _free(at: Situation, hosts: tuple[HostCapacity, ...]) -> int:
    """Hosts that no member has or comes back to. Who has not been given one yet will take one."""
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
    """The host of its pod, else those that its volume is tied to; None: it takes none."""
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
