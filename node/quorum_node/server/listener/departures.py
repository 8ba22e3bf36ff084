"""Whether those that were let in may stay: asked when what is trusted changes, and when a certificate ends.

Connections between members live for weeks, and a handshake proves something about its own moment alone. Asking takes a tenth
of a millisecond each, so a few are asked in a turn of the loop. Knows no protocol.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from quorum_node.server.listener.gate import Gate, Proven

_AT_ONCE = 10


class Guest(Protocol):
    """A connection."""

    proven: Proven

    def retire(self) -> None:
        """End soon, with the answers to what was asked; nothing happens the second time."""


class Loop(Protocol):
    """What is needed of the event loop."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class Departures:
    """Of one listener. `clock`: seconds since 1970."""

    def __init__(
        self,
        loop: Loop,
        gate: Gate,
        guests: Callable[[], Iterable[Guest]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._gate = gate
        self._guests = guests
        self._clock = clock
        self._changes = gate.changes
        self._asked: deque[Guest] = deque()

    def sweep(self) -> None:
        """Once a second is enough."""
        now, changed = self._clock(), self._changes != self._gate.changes
        self._changes = self._gate.changes
        due = [each for each in self._guests() if changed or each.proven.not_after < now]
        if due and not self._asked:
            self._loop.call_soon(self._ask_some)
        self._asked.extend(due)

    def _ask_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._asked))):
            guest = self._asked.popleft()
            if not self._gate.may_stay(guest.proven):
                guest.retire()
        if self._asked:
            self._loop.call_soon(self._ask_some)
