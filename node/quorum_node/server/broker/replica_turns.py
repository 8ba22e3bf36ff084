"""Spreads changes of many replicas over turns of the event loop. What waits for the disk runs on threads (`directory_threads.py`).

Owns which replicas still have to be changed, and the length of a turn. A topic with hundreds of partitions, or the failure
of a broker with many leaders, would otherwise stop all connections and the heartbeats of this broker, and in a process
that is a voter as well, its fetches and votes.
"""

import asyncio
from collections.abc import Callable, Iterator
from time import perf_counter

from quorum_node.image.topics import PartitionKey
from quorum_node.server.pieces import is_done

AT_ONCE = 4
"""Replicas that are changed when their metadata is applied, in one turn of the loop. The others follow in later turns."""
TURN_SECONDS = 0.005
"""A turn changes no further replica after so long. A single one may take longer."""
_PAUSE_SHARE = 0.25
"""Pause after a turn, as a share of its duration. What is ready by then is served between two turns in any case."""


class ReplicaTurns:
    """`change`: applies the present metadata to a replica. `turn_ended`: called after every later turn. `clock`: in seconds."""

    def __init__(
        self,
        change: Callable[[PartitionKey], None],
        turn_ended: Callable[[], None],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._change = change
        self._turn_ended = turn_ended
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._at_once = 0
        self._waiting: dict[PartitionKey, None] = {}
        self._timer: asyncio.Handle | None = None
        self._closed = False

    def __len__(self) -> int:
        """Number of replicas that wait for their turn."""
        return len(self._waiting)

    def may_change_now(self, key: PartitionKey) -> bool:
        """Whether the replica may be changed in this turn. Otherwise it will be changed in a later one."""
        if not self._waiting and self._at_once < AT_ONCE:
            if not self._at_once:
                self._loop.call_soon(self._restore)
            self._at_once += 1
            return True
        self._waiting[key] = None
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_soon(self._take_turn)
        return False

    def forget(self, key: PartitionKey) -> None:
        """The replica is no longer assigned to this broker."""
        self._waiting.pop(key, None)

    def close(self) -> None:
        """Change nothing more."""
        self._closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _restore(self) -> None:
        self._at_once = 0

    def _take_turn(self) -> None:
        self._timer = None
        begun = self._clock()
        is_done(self._changes(), TURN_SECONDS, self._clock)
        spent = self._clock() - begun
        self._turn_ended()
        if self._waiting and not self._closed:
            self._timer = self._loop.call_later(spent * _PAUSE_SHARE, self._take_turn)

    def _changes(self) -> Iterator[None]:
        """Changes one replica after the other."""
        while self._waiting:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._change(key)
            yield
