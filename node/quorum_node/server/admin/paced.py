"""Long reads in short slices, one reader at a time, so that commits do not wait for them.

A long read (the log, all configs) can take seconds. It runs on the event loop in slices of about half a millisecond, with pauses that leave
most of the time to the replica. All long reads of the node share one pace, so their total cost is bounded, whatever the number of
callers. Must not know documents.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from time import perf_counter
from typing import TypeVar

from quorum_node.api import ErrorCode
from quorum_node.server.admin.problems import ApiProblem

T = TypeVar("T")

SLICE_SECONDS = 0.0005
PAUSES_PER_SLICE = 3.0
"""A pause lasts this many times as long as the slice before it: long reads take a quarter of the time."""
MAX_WAITING = 32


class Pace:
    """The pace that all long reads of a node share."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._began = 0.0

    @asynccontextmanager
    async def one_reader(self) -> AsyncIterator["Pace"]:
        """Wait until no other long read is running. Raises ApiProblem when too many are waiting already."""
        if self._waiting >= MAX_WAITING:
            text = (
                f"{MAX_WAITING} long reads are waiting already; try again later, with smaller pages"
            )
            raise ApiProblem(503, ErrorCode.BUSY, text)
        self._waiting += 1
        try:
            async with self._lock:
                self._began = perf_counter()
                yield self
        finally:
            self._waiting -= 1

    async def rest(self) -> None:
        """Pause if the current slice is over; call it often."""
        worked = perf_counter() - self._began
        if worked >= SLICE_SECONDS:
            await asyncio.sleep(worked * PAUSES_PER_SLICE)
            self._began = perf_counter()

    async def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """The items, with pauses between them."""
        for item in items:
            yield item
            await self.rest()
