"""Where the replicas of new partitions go: stripes over racks, over the brokers of each, fenced ones last. PURE.

Owns the choice of brokers. Must not know topics, nor who may be chosen (`assignments.py`).
Source: KIP-36 (rack awareness) and what the shipped controller does: the first replica, who leads, is on a
live broker; each next replica is in the next rack; each next partition begins one rack further and one broker
further within each rack. Starts are random, so that many small topics don't pile up on the first broker.
When every live broker has led once, the order is drawn anew, so that the same sets of replicas don't come again
and again.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

Random = Callable[[int], int]
_T = TypeVar("_T")


class UsableBroker(NamedTuple):
    """A broker that may get replicas."""

    broker_id: int
    rack: str | None
    fenced: bool


class _Ring:
    """Brokers in an order. A partition takes each at most once; the next one begins one further.

    Leaders are counted apart: else a ring as long as there are racks would give the same one again and again.
    """

    __slots__ = ("_brokers", "_followers_from", "_leaders_from", "_position", "_taken")

    def __init__(self, brokers: Iterable[int], random: Random) -> None:
        self._brokers = sorted(brokers)
        start = random(len(self._brokers)) if self._brokers else 0
        self._leaders_from = self._followers_from = self._position = start
        self._taken = 0

    def begin_partition(self) -> None:
        self._taken = 0

    def take_leader(self) -> int | None:
        self._position = self._leaders_from
        self._leaders_from += 1
        return self._take_next()

    def take(self) -> int | None:
        if self._taken == 0:
            self._position = self._followers_from
            self._followers_from += 1
        return self._take_next()

    def _take_next(self) -> int | None:
        if self._taken == len(self._brokers):
            return None
        broker = self._brokers[(self._position + self._taken) % len(self._brokers)]
        self._taken += 1
        return broker

    def shuffle(self, random: Random) -> None:
        shuffle(self._brokers, random)


class _Rack:
    __slots__ = ("_fenced", "_live")

    def __init__(self, brokers: list[UsableBroker], random: Random) -> None:
        self._live = _Ring((each.broker_id for each in brokers if not each.fenced), random)
        self._fenced = _Ring((each.broker_id for each in brokers if each.fenced), random)

    def begin_partition(self) -> None:
        self._live.begin_partition()
        self._fenced.begin_partition()

    def take_live(self) -> int | None:
        return self._live.take_leader()

    def take(self) -> int | None:
        broker = self._live.take()
        return self._fenced.take() if broker is None else broker

    def shuffle(self, random: Random) -> None:
        self._live.shuffle(random)
        self._fenced.shuffle(random)


class Placer:
    """Places partitions one after the other."""

    def __init__(self, brokers: Iterable[UsableBroker], random: Random) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self._random = random
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], random) for name in names]
        self.brokers = sum(map(len, by_rack.values()))
        self.live_brokers = sum(not broker.fenced for rack in by_rack.values() for broker in rack)
        self._first_rack = random(len(self._racks)) if self._racks else 0
        self._placed = 0

    def place(self, replication_factor: int) -> tuple[int, ...]:
        """Brokers for one partition, the leader first.

        The caller has seen to it that there are that many brokers, and a live one.
        """
        assert 0 < replication_factor <= self.brokers
        assert self.live_brokers > 0
        if self._placed == self.live_brokers > 1:
            shuffle(self._racks, self._random)
            for rack in self._racks:
                rack.shuffle(self._random)
            self._placed = 0
        for rack in self._racks:
            rack.begin_partition()
        count = len(self._racks)
        order = [self._racks[(self._first_rack + each) % count] for each in range(count)]
        self._first_rack = (self._first_rack + 1) % count
        self._placed += 1
        chosen: list[int] = []
        position = 0
        while not chosen:
            leader = order[position].take_live()
            position += 1
            if leader is not None:
                chosen.append(leader)
        if position > 1:
            # Racks without a live broker were passed over: they are the next in turn, but the leader's is not.
            order = [each for each in order if each is not order[position - 1]] + [
                order[position - 1]
            ]
            position = 0
        while len(chosen) < replication_factor:
            follower = order[position % count].take()
            position += 1
            if follower is not None:
                chosen.append(follower)
        return tuple(chosen)


def shuffle(items: list[_T], random: Random) -> None:
    """Fisher-Yates, in place."""
    for last in range(len(items) - 1, 0, -1):
        other = random(last + 1)
        items[last], items[other] = items[other], items[last]
