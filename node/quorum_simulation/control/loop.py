"""The methods of an event loop that the node's shell needs, in simulated time.

Owns callbacks of one run of a process: they are dropped when it ends, and wait while it is frozen. Must not know
their effects.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from quorum_simulation.host import SimulatedHost

_TURN_MS = 0.01


class Handle:
    """A callback that may be cancelled."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        self.is_cancelled = True


class SimulatedLoop:
    """`call_soon` and `call_later` of asyncio, for the present run of a host."""

    def __init__(self, host: "SimulatedHost") -> None:
        self._host = host
        self._run = host.run

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> Handle:
        """Call after the present callback."""
        return self._call(_TURN_MS, callback, arguments)

    def call_later(
        self, delay_seconds: float, callback: Callable[..., None], *arguments: Any
    ) -> Handle:
        """Call after a delay by the clock of the machine."""
        delay_ms = delay_seconds * 1000 / self._host.machine.clock.rate
        return self._call(delay_ms, callback, arguments)

    def _call(
        self, delay_ms: float, callback: Callable[..., None], arguments: tuple[Any, ...]
    ) -> Handle:
        handle = Handle()
        scheduler = self._host.cluster.scheduler
        scheduler.after(delay_ms, self._due, handle, callback, arguments)
        return handle

    def _due(
        self, handle: Handle, callback: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        host = self._host
        if handle.is_cancelled or host.run != self._run or not host.up:
            return
        scheduler = host.cluster.scheduler
        if scheduler.now_ms < host.frozen_until_ms:
            delay_ms = host.frozen_until_ms - scheduler.now_ms
            scheduler.after(delay_ms, self._due, handle, callback, arguments)
            return
        host.machine.guarded(callback, *arguments)


@contextmanager
def running(loop: SimulatedLoop) -> Iterator[None]:
    """Objects created in the context use this loop as the running one."""
    before = asyncio._get_running_loop()  # noqa: SLF001 - documented for those who implement loops
    asyncio._set_running_loop(cast(asyncio.AbstractEventLoop, loop))  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(before)  # noqa: SLF001
