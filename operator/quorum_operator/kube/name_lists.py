"""Lists the names of all objects of a collection, for searches of a whole namespace.

Concurrent callers share one read that starts after their calls. When an operator starts, it searches for every quorum,
and a namespace may contain thousands of objects.
"""

import asyncio
from collections.abc import Awaitable, Callable

Read = Callable[[str], Awaitable[frozenset[str]]]


class NameLists:
    """`read` lists the names of the collection at a path."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._running: dict[str, asyncio.Task[frozenset[str]]] = {}
        self._next: dict[str, asyncio.Task[frozenset[str]]] = {}
        """Reads that have not started yet, which further callers may join."""

    async def names(self, path: str) -> frozenset[str]:
        """The names at a time after this call. Raises the errors of `read`."""
        task = self._next.get(path)
        if task is None:
            task = asyncio.create_task(self._read_after(self._running.get(path), path))
            task.add_done_callback(_retrieve)
            self._next[path] = task
        # A cancelled caller does not cancel the read for the others.
        return await asyncio.shield(task)

    async def _read_after(
        self, before: "asyncio.Task[frozenset[str]] | None", path: str
    ) -> frozenset[str]:
        if before is not None:
            await asyncio.wait([before])
        mine = self._running[path] = self._next.pop(path)
        try:
            return await self._read(path)
        finally:
            if self._running.get(path) is mine:
                del self._running[path]


def _retrieve(task: "asyncio.Task[frozenset[str]]") -> None:
    """Retrieve the error, so that asyncio does not log it if no caller waits any more."""
    if not task.cancelled():
        task.exception()
