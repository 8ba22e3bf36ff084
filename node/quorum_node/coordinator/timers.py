"""Which groups have timers that expire, found without a look at the others. PURE.

Owns the order. Must not know the timers: a group says when its next one expires.
"""

from heapq import heapify, heappop, heappush
from math import inf

from quorum_node.coordinator.group import ClassicGroup

_MOST_STALE = 1_000
"""Entries that are not valid any more are dropped when they are more than this, and more than the valid ones."""


class GroupTimers:
    """A timer may be planned too early, as a heartbeat only moves the end of a session: then the group is asked again when it expires."""

    __slots__ = ("_fired_ms", "_heap", "_planned", "_touched")

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._planned: dict[str, float] = {}
        self._touched: dict[str, None] = {}
        self._fired_ms = -inf

    def touch(self, group_id: str) -> None:
        """Something of the group has changed, so that a timer may expire earlier."""
        self._touched[group_id] = None

    def plan(self, group: ClassicGroup) -> None:
        """Begin with a group."""
        self._plan(group.group_id, group)

    def next_due(self, groups: dict[str, ClassicGroup], now_ms: float) -> ClassicGroup | None:
        """A group that has a timer that has expired; it is touched again. None if there is no other one."""
        while True:
            while self._touched:
                group_id, _ = self._touched.popitem()
                self._plan(group_id, groups.get(group_id))
            if not self._heap or self._heap[0][0] > now_ms:
                return None
            due_ms, group_id = heappop(self._heap)
            if self._planned.get(group_id) != due_ms:
                continue
            del self._planned[group_id]
            group = groups.get(group_id)
            if group is None:
                continue
            self._touched[group_id] = None
            if group.due_ms <= now_ms:
                self._fired_ms = now_ms
                return group

    def _plan(self, group_id: str, group: ClassicGroup | None) -> None:
        # A timer of no length would expire again and again at the same time.
        due_ms = inf if group is None else max(group.due_ms, self._fired_ms + 1)
        if due_ms < self._planned.get(group_id, inf):
            self._planned[group_id] = due_ms
            heappush(self._heap, (due_ms, group_id))
            if len(self._heap) > 2 * len(self._planned) + _MOST_STALE:
                self._heap = [(due, each) for each, due in self._planned.items()]
                heapify(self._heap)
