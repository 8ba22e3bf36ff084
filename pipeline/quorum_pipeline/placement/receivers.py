"""Chooses the broker for the next replica: of the allowed ones, the one with the largest deficit. PURE.

One queue per rack, so that a choice takes time proportional to the number of racks.
"""

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from quorum_pipeline.placement.cluster import Placement, Replicas


class Receivers:
    """Queues of brokers by deficit. `wanted`: how many replicas each broker should have in the end."""

    def __init__(self, placement: Placement, wanted: Sequence[int]) -> None:
        self._placement = placement
        self._wanted = wanted
        self._queues: list[list[tuple[int, int]]] = [[] for _ in range(placement.rack_count)]
        for broker, receives in enumerate(placement.receives):
            if receives:
                self._queues[placement.rack[broker]].append((-self._lack(broker), broker))
        for queue in self._queues:
            heapify(queue)

    def changed(self, broker: int) -> None:
        """Update a broker after its number of replicas has changed."""
        if self._placement.receives[broker]:
            entry = (-self._lack(broker), broker)
            heappush(self._queues[self._placement.rack[broker]], entry)

    def choose(self, replicas: Replicas, leaving: int, *, only_lacking: bool) -> int | None:
        """Return the broker that replaces `leaving`; None if no broker may, or with `only_lacking` if none has a deficit."""
        limit = self._placement.rack_limit(len(replicas))
        return self._choose(replicas, leaving, limit, only_lacking=only_lacking)

    def choose_forced(self, replicas: Replicas, leaving: int) -> int | None:
        """Return the broker for a necessary move: more replicas may share a rack if all brokers of another rack are closed."""
        found = self.choose(replicas, leaving, only_lacking=False)
        if found is not None:
            return found
        limit = self._placement.open_rack_limit(len(replicas))
        return self._choose(replicas, leaving, limit, only_lacking=False)

    def _choose(
        self, replicas: Replicas, leaving: int, limit: int, *, only_lacking: bool
    ) -> int | None:
        placement = self._placement
        taken = [placement.rack[each] for each in replicas if each != leaving]
        best, best_lack = None, 0 if only_lacking else -(1 << 60)
        for rack in range(placement.rack_count):
            if taken.count(rack) >= limit:
                continue
            found = self._first(rack, replicas)
            if found is not None and found[0] > best_lack:
                best_lack, best = found
        return best

    def _first(self, rack: int, replicas: Replicas) -> tuple[int, int] | None:
        """Return (deficit, broker) of the broker with the largest deficit that has no replica of this partition, or None."""
        queue = self._queues[rack]
        passed: list[tuple[int, int]] = []
        found = None
        while queue:
            lack, broker = -queue[0][0], queue[0][1]
            if lack != self._lack(broker):
                heappop(queue)  # outdated: a newer entry is in the queue
            elif broker in replicas:
                passed.append(heappop(queue))
            else:
                found = (lack, broker)
                break
        for entry in passed:
            heappush(queue, entry)
        return found

    def _lack(self, broker: int) -> int:
        return self._wanted[broker] - self._placement.replica_count[broker]
