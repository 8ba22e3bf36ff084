"""The input of a plan: brokers, racks, and the current placement of all replicas. PURE.

Owns the compact form for a million partitions: brokers are numbered from 0, replicas are tuples of these numbers, the
preferred leader first. Does not search for better placements.
"""

from collections.abc import Sequence
from dataclasses import dataclass

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker. `usable` False: it is to be drained, or not registered. Brokers without a rack share one rack.
    `closed`: why it can't take replicas or leadership now, such as "fenced" (its replicas stay); empty if it can.
    """

    id: int
    rack: str | None = None
    usable: bool = True
    closed: str = ""


@dataclass(frozen=True, slots=True)
class Partition:
    """The current placement of a partition; `size_bytes`: size of one replica, None if unknown."""

    topic: str
    number: int
    replicas: tuple[int, ...]
    size_bytes: int | None = None


class Placement:
    """Replicas of each partition by broker number, and the load of each broker; changed in place."""

    def __init__(self, brokers: Sequence[Broker], partitions: Sequence[Partition]) -> None:
        known = {broker.id for broker in brokers}
        lost = sorted({each for p in partitions for each in p.replicas} - known)
        self.brokers = [*brokers, *(Broker(each, usable=False) for each in lost)]
        """Includes brokers that have replicas but are not registered: their replicas have to be moved."""
        self._number = {broker.id: number for number, broker in enumerate(self.brokers)}
        racks = sorted({str(broker.rack or "") for broker in brokers if broker.usable})
        rack_numbers = {rack: number for number, rack in enumerate(racks)}
        self.rack = [rack_numbers.get(str(each.rack or ""), len(racks)) for each in self.brokers]
        self.rack_count = max(len(racks), 1)
        self.usable = [broker.usable for broker in self.brokers]
        self.receives = [broker.usable and not broker.closed for broker in self.brokers]
        """Whether each broker may get replicas and leaders."""
        able = {rack for rack, ok in zip(self.rack, self.receives, strict=True) if ok}
        self.open_rack_count = max(len(able), 1)
        numbered = self._number
        self.replicas: list[Replicas] = [
            tuple([numbered[each] for each in partition.replicas]) for partition in partitions
        ]
        self.size_bytes = _sizes(partitions)
        count = len(self.brokers)
        self.replica_count = [0] * count
        self.leader_count = [0] * count
        self.bytes = [0] * count
        for index, replicas in enumerate(self.replicas):
            for broker in replicas:
                self.replica_count[broker] += 1
            if replicas:
                self.leader_count[replicas[0]] += 1
            if self.size_bytes is not None:
                for broker in replicas:
                    self.bytes[broker] += self.size_bytes[index]

    def ids(self, replicas: Replicas) -> tuple[int, ...]:
        """Convert broker numbers to broker ids."""
        return tuple([self.brokers[each].id for each in replicas])

    def rack_limit(self, replica_count: int) -> int:
        """Return how many replicas of one partition may share a rack."""
        return -(-replica_count // self.rack_count)

    def open_rack_limit(self, replica_count: int) -> int:
        """Return the same limit without racks in which every broker is closed."""
        return -(-replica_count // self.open_rack_count)

    def stays(self, broker: int) -> bool:
        """Return whether a broker keeps its replicas but takes no others."""
        return self.usable[broker] and not self.receives[broker]

    def move(self, index: int, source: int, target: int) -> None:
        """Move a replica of a partition from one broker to another, at the same place of the list."""
        replicas = self.replicas[index]
        place = replicas.index(source)
        self.replicas[index] = (*replicas[:place], target, *replicas[place + 1 :])
        self.replica_count[source] -= 1
        self.replica_count[target] += 1
        if place == 0:
            self.leader_count[source] -= 1
            self.leader_count[target] += 1
        if self.size_bytes is not None:
            self.bytes[source] -= self.size_bytes[index]
            self.bytes[target] += self.size_bytes[index]

    def lead(self, index: int, leader: int) -> None:
        """Make another replica of a partition the preferred leader; no replica moves."""
        replicas = self.replicas[index]
        self.leader_count[replicas[0]] -= 1
        self.leader_count[leader] += 1
        self.replicas[index] = (leader, *(each for each in replicas if each != leader))

    def crowded(self, replicas: Replicas) -> list[int]:
        """Return the replicas whose rack has more of the partition's replicas than allowed, in order."""
        limit = self.rack_limit(len(replicas))
        racks = [self.rack[each] for each in replicas]
        return [
            each for each, rack in zip(replicas, racks, strict=True) if racks.count(rack) > limit
        ]


def targets(counts: Sequence[int], placement: Placement) -> list[int]:
    """Return an even share for every broker that can take some. The remainder goes to the brokers with the highest counts, so
    that few have to move.

    A closed broker keeps its count.
    """
    able = [broker for broker, ok in enumerate(placement.receives) if ok]
    wanted = [n if placement.stays(broker) else 0 for broker, n in enumerate(counts)]
    share, more = divmod(sum(counts) - sum(wanted), len(able))
    for broker in able:
        wanted[broker] = share
    for broker in sorted(able, key=lambda each: -counts[each])[:more]:
        wanted[broker] += 1
    return wanted


def _sizes(partitions: Sequence[Partition]) -> list[int] | None:
    """Return the sizes of partitions, None if all are unknown; a single unknown one counts as 0."""
    sizes = [partition.size_bytes for partition in partitions]
    if all(size is None for size in sizes):
        return None
    return [size or 0 for size in sizes]
