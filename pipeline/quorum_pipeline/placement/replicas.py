"""Moving replicas: first those that have to go, then as many as an even share asks for. PURE.

Owns the two steps and their order. A step moves a replica only to a broker that lacks some, in a rack that may have it; so
no replica moves twice, and none that could stay, unless racks leave no other way.
"""

from collections.abc import Iterable

from quorum_pipeline.placement.cluster import Placement, targets
from quorum_pipeline.placement.receivers import Receivers


class NoRoom(Exception):
    """A partition has more replicas than there are brokers for them."""


def move_forced(placement: Placement) -> None:
    """Away from brokers that can't be used, and apart where racks are crowded. Raises NoRoom."""
    receivers = Receivers(placement, _wanted(placement))
    usable, racks, multiple = placement.usable, placement.rack, placement.rack_count > 1
    for index, replicas in enumerate(placement.replicas):
        for broker in replicas:
            if not usable[broker]:
                _move(placement, receivers, index, broker)
        if multiple and len({racks[each] for each in replicas}) < len(replicas):
            _spread(placement, receivers, index)


def balance_replicas(placement: Placement) -> None:
    """Until nobody has more than an even share, or no replica may move to anybody who has less."""
    wanted = _wanted(placement)
    receivers = Receivers(placement, wanted)
    donors = {
        broker
        for broker, count in enumerate(placement.replica_count)
        if placement.usable[broker] and count > wanted[broker]
    }
    held: dict[int, list[int]] = {broker: [] for broker in donors}
    for index, replicas in enumerate(placement.replicas):
        for broker in replicas:
            if broker in donors:
                held[broker].append(index)
    for broker in sorted(donors, key=lambda each: wanted[each] - placement.replica_count[each]):
        for index in _in_order(placement, broker, wanted[broker], held[broker]):
            if placement.replica_count[broker] <= wanted[broker]:
                break
            target = receivers.choose(placement.replicas[index], broker, only_lacking=True)
            if target is not None:
                placement.move(index, broker, target)
                receivers.changed(target)


def _wanted(placement: Placement) -> list[int]:
    total = sum(placement.replica_count)
    return targets(total, placement.replica_count, placement.usable)


def _move(placement: Placement, receivers: Receivers, index: int, broker: int) -> None:
    replicas = placement.replicas[index]
    target = receivers.choose(replicas, broker, only_lacking=False)
    if target is None:
        usable = sum(placement.usable)
        raise NoRoom(
            f"a partition has {len(replicas)} replicas, and {usable} brokers can have some"
        )
    placement.move(index, broker, target)
    receivers.changed(broker)
    receivers.changed(target)


def _spread(placement: Placement, receivers: Receivers, index: int) -> None:
    """One replica after another moves out of a crowded rack."""
    while (broker := placement.crowded(placement.replicas[index])) is not None:
        target = receivers.choose(placement.replicas[index], broker, only_lacking=False)
        if target is None:
            return
        placement.move(index, broker, target)
        receivers.changed(broker)
        receivers.changed(target)


def _in_order(placement: Placement, broker: int, wanted: int, held: list[int]) -> Iterable[int]:
    """Where sizes are known, those first whose size is what each move should take along."""
    sizes = placement.size_bytes
    if sizes is None:
        return held
    able = sum(placement.usable)
    surplus = placement.bytes[broker] - sum(placement.bytes) // able
    each_bytes = surplus // max(placement.replica_count[broker] - wanted, 1)
    return sorted(held, key=lambda index: abs(sizes[index] - each_bytes))
