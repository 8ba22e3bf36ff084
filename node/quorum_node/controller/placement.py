"""Placement of the replicas of new partitions: stripes over racks and their brokers, fenced brokers
last. PURE.

Owns the choice of brokers. Must not know topics, nor which brokers can be chosen
(`assignments.py`).
Source: KIP-36 (rack awareness) and the shipped controller: the first replica, the leader, is on an
active broker; each further replica is in the next rack; each further partition begins one rack
further and one broker further within each rack. Start positions are random, so that many small
topics don't all use the first broker. When every active broker has led once, the order is shuffled
again, so that the same sets of replicas don't repeat.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

Random = Callable[[int], int]
_T = TypeVar("_T")


class UsableBroker(NamedTuple):
    """A broker that can get replicas."""

    broker_id: int
    rack: str | None
    fenced: bool


class _Ring:
    """Brokers in a fixed order. A partition takes each at most once; the next one begins one further.

    Leaders are counted separately. Otherwise a ring as long as the number of racks would repeat the
    same leader.
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
    """Places one partition after the other."""

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

        The caller has checked that there are enough brokers, and an active one.
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
            # Racks without an active broker were skipped for the leader: they are next for the
            # other replicas.
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
