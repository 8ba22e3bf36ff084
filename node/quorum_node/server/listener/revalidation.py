"""Checks open connections again: when the trusted certificates change, and when a client's certificate expires.

Connections between members stay open for weeks, and a handshake proves an identity only at its own time. A check takes a tenth of a
millisecond, so a few are made in each turn of the loop. Must not know the protocol.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from quorum_node.server.listener.port_authentication import (
    NOT_YET,
    PeerIdentity,
    PortAuthentication,
)

_AT_ONCE = 10


class RevalidatedConnection(Protocol):
    """A connection that can be closed."""

    identity: PeerIdentity
    """NOT_YET once it closes: it is not authenticated again, however long its client delays the end."""

    def retire(self) -> None:
        """Close soon, after the answers to the requests that have arrived, or after a timeout."""


class Loop(Protocol):
    """The methods of the event loop that are used here."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class Revalidation:
    """The checks of one listener. `clock`: seconds since 1970."""

    def __init__(
        self,
        loop: Loop,
        authentication: PortAuthentication,
        connections: Callable[[], Iterable[RevalidatedConnection]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loop = loop
        self._authentication = authentication
        self._connections = connections
        self._clock = clock
        self._changes = authentication.changes
        self._asked: deque[RevalidatedConnection] = deque()

    def sweep(self) -> None:
        """Start the checks that are due. To be called once a second."""
        now, changed = self._clock(), self._changes != self._authentication.changes
        self._changes = self._authentication.changes
        due = [each for each in self._connections() if changed or each.identity.not_after < now]
        if due and not self._asked:
            self._loop.call_soon(self._ask_some)
        self._asked.extend(due)

    def _ask_some(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._asked))):
            connection = self._asked.popleft()
            if connection.identity is NOT_YET:
                continue
            if not self._authentication.is_still_valid(connection.identity):
                connection.retire()
        if self._asked:
            self._loop.call_soon(self._ask_some)
