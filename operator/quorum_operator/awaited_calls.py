"""The calls that a reconcile was awaiting when it was cancelled, for the message about its time limit.

Owns only this record. A call belongs to the reconcile in whose context it is made, also in a task that the reconcile
started.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_MOST = 3
_AT_ONCE_S = 1.0
"""A cancelled reconcile cancels all its calls within this time. A call cancelled earlier had been given up."""


@dataclass(frozen=True, slots=True)
class _Cancelled:
    call: str
    awaited_s: float
    at: float


@dataclass(slots=True)
class AwaitedCalls:
    """The cancelled calls of one reconcile."""

    _cancelled: list[_Cancelled] = field(default_factory=list)

    def note(self, call: str, awaited_s: float, at: float) -> None:
        """Record a cancelled call. `at`: seconds, monotonic."""
        self._cancelled.append(_Cancelled(call, awaited_s, at))

    def text(self) -> str:
        """The calls that were cancelled last, the longest first, with their seconds; "no call" if there is none."""
        last = max((each.at for each in self._cancelled), default=0.0)
        found = [each for each in self._cancelled if last - each.at < _AT_ONCE_S]
        found.sort(key=lambda each: each.awaited_s, reverse=True)
        shown = [f"{each.call} ({each.awaited_s:.0f} s)" for each in found[:_MOST]]
        if len(found) > _MOST:
            shown.append(f"{len(found) - _MOST} others")
        return ", ".join(shown) or "no call"


_current: ContextVar[AwaitedCalls | None] = ContextVar("awaited_calls", default=None)


@contextmanager
def recorded() -> Iterator[AwaitedCalls]:
    """Record the calls that are cancelled in this context."""
    calls = AwaitedCalls()
    token = _current.set(calls)
    try:
        yield calls
    finally:
        _current.reset(token)


@contextmanager
def awaiting(call: str) -> Iterator[None]:
    """Name the call that is awaited inside."""
    began = time.monotonic()
    try:
        yield
    except asyncio.CancelledError:
        calls = _current.get()
        if calls is not None:
            now = time.monotonic()
            calls.note(call, now - began, now)
        raise
