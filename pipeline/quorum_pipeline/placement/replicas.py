"""Moves replicas: first the necessary moves, then those for an even distribution. PURE.

Owns the two phases, and their repetition. In the second phase a replica moves only to a broker with a deficit in an allowed rack,
so none moves unnecessarily unless the racks require it. A move can open a rack for another replica of its partition, and
change which brokers get the remainder of an even share: the phases are repeated until neither moves anything, so a plan
over the result moves nothing. They end: a move out of a crowded rack leaves less crowding, a move to a deficit
less crowding or the same and a smaller sum of the squares of counts.
"""

from collections.abc import Iterable

from quorum_pipeline.placement.cluster import Placement, targets
from quorum_pipeline.placement.receivers import Receivers


class NoRoom(Exception):
    """A partition has more replicas than there are usable brokers."""


def settle_replicas(placement: Placement) -> None:
    """Move replicas until no rule requires or allows a further move. Raises NoRoom."""
    moving = True
    while moving:
        forced = _move_forced(placement)
        moving = _balance(placement) or forced


def _move_forced(placement: Placement) -> bool:
    """Move replicas off unusable brokers, and out of crowded racks; return whether any moved. Raises NoRoom."""
    moved = False
    receivers = Receivers(placement, _wanted(placement))
    usable, racks, multiple = placement.usable, placement.rack, placement.rack_count > 1
    for index, replicas in enumerate(placement.replicas):
        for broker in replicas:
            if not usable[broker]:
                _move(placement, receivers, index, broker)
                moved = True
        if multiple and len({racks[each] for each in replicas}) < len(replicas):
            moved = _spread(placement, receivers, index) or moved
    return moved


def _balance(placement: Placement) -> bool:
    """Move replicas from brokers with more than an even share to those with less, where racks allow it; return whether any moved."""
    wanted = _wanted(placement)
    receivers = Receivers(placement, wanted)
    donors = {
        broker
        for broker, count in enumerate(placement.replica_count)
        if placement.usable[broker] and count > wanted[broker]
    }
    if not donors:
        return False
    moved = False
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
                moved = True
    return moved


def _wanted(placement: Placement) -> list[int]:
    return targets(placement.replica_count, placement)


def _move(placement: Placement, receivers: Receivers, index: int, broker: int) -> None:
    replicas = placement.replicas[index]
    target = receivers.choose_forced(replicas, broker)
    if target is None:
        raise NoRoom(_no_room(placement, len(replicas)))
    placement.move(index, broker, target)
    receivers.changed(broker)
    receivers.changed(target)


def _no_room(placement: Placement, replica_count: int) -> str:
    text = f"a partition has {replica_count} replicas, but only {sum(placement.receives)} brokers are usable"
    closed = [b for number, b in enumerate(placement.brokers) if placement.stays(number)]
    if not closed:
        return text
    named = ", ".join(f"{each.id} ({each.closed})" for each in closed)
    return f"{text}; unusable now: {named}. Bring one of them back, or drain fewer brokers"


def _spread(placement: Placement, receivers: Receivers, index: int) -> bool:
    """Move replicas of a partition out of crowded racks, one at a time, the last ones first; return whether any moved. Closed
    brokers keep theirs.
    """
    moved = False
    while movable := [
        each for each in placement.crowded(placement.replicas[index]) if not placement.stays(each)
    ]:
        broker = movable[-1]
        target = receivers.choose(placement.replicas[index], broker, only_lacking=False)
        if target is None:
            break
        placement.move(index, broker, target)
        receivers.changed(broker)
        receivers.changed(target)
        moved = True
    return moved


def _in_order(placement: Placement, broker: int, wanted: int, held: list[int]) -> Iterable[int]:
    """Return the broker's partitions in the order of moves: if sizes are known, those closest to the mean surplus per move first."""
    sizes = placement.size_bytes
    if sizes is None:
        return held
    able = placement.receives
    share = sum(n for n, ok in zip(placement.bytes, able, strict=True) if ok) // sum(able)
    surplus = placement.bytes[broker] - share
    each_bytes = surplus // max(placement.replica_count[broker] - wanted, 1)
    return sorted(held, key=lambda index: abs(sizes[index] - each_bytes))
