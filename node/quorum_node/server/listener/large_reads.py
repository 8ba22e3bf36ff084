"""Reads large incomplete requests in pieces, one connection at a time.

A transport reads as long as bytes are available: sixty connections that send eight MiB each would occupy one turn of the loop for a
second. Here a connection pauses after each piece until its next turn in the queue, one piece is read in a turn of the loop, and beyond a
burst all of them share a bounded rate.
"""

import math
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

LARGE_BYTES = 64 << 10
"""In bytes: incomplete requests from this size on are read in turns. Requests between voters are smaller."""
BYTES_PER_SECOND = 128 << 20
"""Bytes a second of large requests. A piece of 256 KiB takes 0.1 to 0.2 ms, so this is a tenth of the loop's time."""
ENCRYPTED_COST = 2
"""A byte over TLS counts as so many: it is decrypted, and copied more often."""
BURST_BYTES = 16 << 20
"""In bytes: burst after a time without large requests; twice the largest request that is allowed by default."""


class Reader(Protocol):
    """A connection with an incomplete request."""

    def stop_reading(self) -> None:
        """Read nothing until `read_on`."""

    def read_on(self) -> None:
        """Read the next piece. Has no effect on a closed connection."""


class Loop(Protocol):
    """The methods of the event loop that are used here."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> object: ...


class LargeReads:
    """The large requests of one listener. `clock`: in seconds."""

    def __init__(self, loop: Loop, clock: Callable[[], float] = perf_counter) -> None:
        self._loop = loop
        self._clock = clock
        self._queue: deque[Reader] = deque()
        self._due = -math.inf
        self._scheduled = False

    def has_read(self, reader: Reader, size_bytes: int, *, is_encrypted: bool = False) -> None:
        """A piece of a large request was read; the connection waits for its turn. Called again only after `read_on`."""
        reader.stop_reading()
        earliest = self._clock() - BURST_BYTES / BYTES_PER_SECOND
        counted_bytes = size_bytes * ENCRYPTED_COST if is_encrypted else size_bytes
        self._due = max(self._due, earliest) + counted_bytes / BYTES_PER_SECOND
        self._queue.append(reader)
        self._schedule()

    def _schedule(self) -> None:
        if self._scheduled or not self._queue:
            return
        self._scheduled = True
        pause = self._due - self._clock()
        if pause > 0:
            self._loop.call_later(pause, self._next)
        else:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        self._queue.popleft().read_on()
        self._schedule()
