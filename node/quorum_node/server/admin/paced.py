"""Long reads in small pieces, one at a time, so that commits do not wait for them.

A long read (the log, all configs) is work of seconds. It is done on the event loop in slices of about a
millisecond, with pauses that leave most of the time to the replica, and all long reads of the node
share that one pace. So the cost is bounded whoever asks, and however many do. Knows no documents.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TypeVar

from quorum_node.api import ErrorCode
from quorum_node.server.admin.problems import ApiProblem

T = TypeVar("T")

SLICE_SECONDS = 0.001
PAUSES_PER_SLICE = 3.0
"""A pause lasts so much longer than the slice before it: long reads take a quarter of the time."""
MAX_WAITING = 32


class Pace:
    """Shared by all long reads of a node."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._began = 0.0

    @asynccontextmanager
    async def one_reader(self) -> AsyncIterator["Pace"]:
        """Wait until no other long read is under way. Raises ApiProblem when too many wait already."""
        if self._waiting >= MAX_WAITING:
            text = f"{MAX_WAITING} long reads wait already; try again, and read smaller pages"
            raise ApiProblem(503, ErrorCode.BUSY, text)
        self._waiting += 1
        try:
            async with self._lock:
                self._began = perf_counter()
                yield self
        finally:
            self._waiting -= 1

    async def rest(self) -> None:
        """Pause if the slice is over; called often."""
        worked = perf_counter() - self._began
        if worked >= SLICE_SECONDS:
            await asyncio.sleep(worked * PAUSES_PER_SLICE)
            self._began = perf_counter()

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with pauses between them."""
        for item in items:
            yield item
            await self.rest()
