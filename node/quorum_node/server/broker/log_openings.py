"""Spreads the creation of many logs over turns of the event loop: each one waits for syncs of the disk.

Owns which replicas still have to be opened, and the share of the loop's time. A topic with hundreds of partitions would
otherwise stop all connections, and in a process that is a voter as well, its heartbeats and votes.
"""

import asyncio
from collections.abc import Callable

from quorum_node.image.topics import PartitionKey

AT_ONCE = 4
"""Replicas that are opened when their metadata is applied, in one turn of the loop. Later ones follow one by one."""

_PAUSE_SHARE = 0.25
"""Pause after an opening, as a share of its duration. What is ready by then is served between two openings in any case."""


class LogOpenings:
    """`open_now`: opens the replica if it is still assigned to this broker."""

    def __init__(self, open_now: Callable[[PartitionKey], None]) -> None:
        self._open_now = open_now
        self._loop = asyncio.get_running_loop()
        self._in_this_turn = 0
        self._waiting: dict[PartitionKey, None] = {}
        self._timer: asyncio.Handle | None = None
        self._closed = False

    def may_open(self, key: PartitionKey) -> bool:
        """Whether the replica may be opened in this turn. Otherwise it will be opened in a later one."""
        if not self._waiting and self._in_this_turn < AT_ONCE:
            if not self._in_this_turn:
                self._loop.call_soon(self._turn_ends)
            self._in_this_turn += 1
            return True
        self._waiting[key] = None
        if self._timer is None and not self._closed:
            self._timer = self._loop.call_soon(self._open_next)
        return False

    def forget(self, key: PartitionKey) -> None:
        """The replica is no longer assigned to this broker."""
        self._waiting.pop(key, None)

    def close(self) -> None:
        """Open nothing more."""
        self._closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _turn_ends(self) -> None:
        self._in_this_turn = 0

    def _open_next(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        key = next(iter(self._waiting))
        del self._waiting[key]
        begun = self._loop.time()
        self._open_now(key)
        if self._waiting and not self._closed:
            pause = (self._loop.time() - begun) * _PAUSE_SHARE
            self._timer = self._loop.call_later(pause, self._open_next)
