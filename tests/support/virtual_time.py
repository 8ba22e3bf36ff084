"""An event loop whose time advances only while it is idle: hours of waiting take milliseconds.

Owns the clock. Code that runs in it must wait by asyncio only, and open no connection.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Idle(selectors.DefaultSelector):
    """Advances the time instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("all tasks wait: deadlock")
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s."""

    def __init__(self) -> None:
        self._idle = _Idle()
        super().__init__(self._idle)

    def time(self) -> float:
        return self._idle.now_s


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """Like asyncio.run."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def finish(work: Coroutine[Any, Any, None]) -> None:
    """The same for code with an executor: its threads are not waited for at the end, because virtual time can't."""
    loop = VirtualTimeLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()
