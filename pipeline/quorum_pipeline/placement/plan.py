"""The plan: what to reassign, and the balance before and after. PURE.

Owns the order of the steps and the numbers that explain the outcome. Source of the output's form: the JSON that stock
`kafka-reassign-partitions` reads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorum_pipeline.placement.cluster import Broker, Partition, Placement
from quorum_pipeline.placement.leaders import balance_leaders
from quorum_pipeline.placement.replicas import settle_replicas


@dataclass(frozen=True, slots=True)
class Spread:
    """Distribution of a quantity over the brokers that can take replicas: minimum, maximum and mean."""

    least: int
    most: int
    mean: float

    def __str__(self) -> str:
        return f"{self.least:,} to {self.most:,}, mean {self.mean:,.1f}"


@dataclass(frozen=True, slots=True)
class Balance:
    """Figures of one state of the cluster. `crowded`: number of partitions with more replicas in a rack than necessary."""

    replicas: Spread
    leaders: Spread
    bytes: Spread | None
    crowded: int
    misplaced: int
    """Number of replicas on unusable brokers."""


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The new replicas of one partition."""

    topic: str
    number: int
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def moved(self) -> int:
        """Number of replicas that are copied."""
        return len(set(self.after) - set(self.before))


@dataclass(frozen=True, slots=True)
class Plan:
    """`moved_replicas`: number of replicas that are copied; `reordered`: number of partitions that only get another preferred
    leader; `fewest`: minimum number of moves of any plan.
    """

    reassignments: tuple[Reassignment, ...]
    before: Balance
    after: Balance
    moved_replicas: int
    moved_bytes: int | None
    reordered: int
    fewest: int


def make_plan(
    brokers: Sequence[Broker], partitions: Sequence[Partition], *, leaders: bool = True
) -> Plan:
    """Return a balanced, rack-aware plan with few moves. Raises ValueError if no broker is usable, and NoRoom."""
    if not any(broker.usable and not broker.closed for broker in brokers):
        raise ValueError(
            "no broker is usable: all are drained, fenced, shutting down, cordoned or not registered"
        )
    placement = Placement(brokers, partitions)
    before, fewest = _balance(placement), _fewest(placement)
    settle_replicas(placement)
    if leaders:
        balance_leaders(placement)
    changed = tuple(_changes(placement, partitions))
    moved = sum(each.moved for each in changed)
    return Plan(
        changed,
        before,
        _balance(placement),
        moved,
        _moved_bytes(placement, partitions),
        sum(each.moved == 0 for each in changed),
        fewest if moved >= fewest else before.misplaced,  # an even share can't be reached
    )


def _changes(placement: Placement, partitions: Sequence[Partition]) -> Iterator[Reassignment]:
    for partition, replicas in zip(partitions, placement.replicas, strict=True):
        after = placement.ids(replicas)
        if after != partition.replicas:
            yield Reassignment(partition.topic, partition.number, partition.replicas, after)


def _moved_bytes(placement: Placement, partitions: Sequence[Partition]) -> int | None:
    sizes = placement.size_bytes
    if sizes is None:
        return None
    return sum(
        size * len(set(placement.ids(replicas)) - set(partition.replicas))
        for size, partition, replicas in zip(sizes, partitions, placement.replicas, strict=True)
    )


def _fewest(placement: Placement) -> int:
    """Return a lower bound of moves: every plan has to empty unusable brokers, and fill each that is not closed to an even share."""
    usable, able, counts = placement.usable, placement.receives, placement.replica_count
    staying = sum(count for number, count in enumerate(counts) if placement.stays(number))
    share = (sum(counts) - staying) // sum(able)
    leaving = sum(count for count, ok in zip(counts, usable, strict=True) if not ok)
    filling = sum(max(share - n, 0) for n, ok in zip(counts, able, strict=True) if ok)
    return max(leaving, filling)


def _balance(placement: Placement) -> Balance:
    usable, able = placement.usable, placement.receives
    misplaced = sum(n for n, ok in zip(placement.replica_count, usable, strict=True) if not ok)
    crowded = sum(bool(placement.crowded(replicas)) for replicas in placement.replicas)
    return Balance(
        _spread(placement.replica_count, able),
        _spread(placement.leader_count, able),
        None if placement.size_bytes is None else _spread(placement.bytes, able),
        crowded,
        misplaced,
    )


def _spread(counts: Sequence[int], able: Sequence[bool]) -> Spread:
    found = [count for count, ok in zip(counts, able, strict=True) if ok]
    return Spread(min(found), max(found), sum(found) / len(found))
