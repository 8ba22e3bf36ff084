"""Decides which connection is served next when the pending work exceeds one turn of the loop.

Start-time fair queueing: each connection has a virtual clock that its own work advances, and the one with the lowest clock is served
first. A client that sends a request occasionally is served before clients that send continuously, however many these are. Requests of
voters are not queued here: they are served at once.

Work that may take long (a large request, or one of a connection whose last request took long) is heavy. Heavy work is served one piece
at a time, when no other work waits and the previous piece is answered, with pauses of four times its duration.

Work that is certainly short (the only request of a connection whose last request was short) is light. Turns of light work are longer:
shorter ones would split requests that many clients send at the same time into groups, and each group costs a flush.
"""

import heapq
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

_MIN_PAUSE_SECONDS = 0.001
TURN_SECONDS = 0.002
"""In seconds: how long ordinary connections may use one turn of the loop."""

LIGHT_TURN_SECONDS = 0.008
"""In seconds: the same if all are light. The simultaneous requests of a hundred clients are one group, which shares a flush."""

_LEAD_SECONDS = 0.02
"""In seconds: how much unused time a connection keeps as an advantage over others."""

_HEAVY_PAUSES = 4
_LOOK_AGAIN_SECONDS = 0.01
_MAX_HEAVY_WAIT_SECONDS = 1.0
_SLOW_TURNS = 10
"""In seconds: shorter durations may be noise of the machine."""
_SHORT_TURNS = 0.25


class Worker(Protocol):
    """A connection with pending work."""

    @property
    def served_until(self) -> float:
        """Its virtual clock, in seconds of work."""

    @property
    def is_heavy(self) -> bool:
        """Whether its next piece of work may take longer than a turn."""

    @property
    def is_light(self) -> bool:
        """Whether it has exactly one request, and that one is short."""

    @property
    def in_flight(self) -> int:
        """Number of requests that it has begun and that are not answered."""

    def take_turn(self) -> None:
        """Do a bounded piece of work."""


class Loop(Protocol):
    """The methods of the event loop that are used here."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> object: ...


class FairTurns:
    """`share`: the part of the loop's time that all connections together may use once the burst is used up.

    `turn_seconds`: time used of one turn of the loop. `clock`: in seconds.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        share: float = 1.0,
        burst_seconds: float = 0.0,
        turn_seconds: float = TURN_SECONDS,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._share = share
        self.turn_seconds = turn_seconds
        self._light_turn_seconds = turn_seconds * (LIGHT_TURN_SECONDS / TURN_SECONDS)
        self.slow_seconds = _SLOW_TURNS * turn_seconds
        """In seconds: a piece of work that takes longer makes the next one heavy."""
        self.short_seconds = _SHORT_TURNS * turn_seconds
        """In seconds: a piece of work that takes less makes the next one light."""
        self._burst = burst_seconds
        self._credit = burst_seconds
        self._credited_at = clock()
        self._spent = 0.0
        self._now = 0.0
        self._queue: list[tuple[float, int, Worker]] = []
        self._heavy: list[tuple[float, int, Worker]] = []
        self._heavy_after = 0.0
        self._heavy_timer = False
        self._last_heavy: Worker | None = None
        self._heavy_since = 0.0
        self._number = 0
        self._turn_begun = False
        self._scheduled = False

    @property
    def waiting(self) -> int:
        """Number of connections that wait for their turn."""
        return len(self._queue) + len(self._heavy)

    def may_go_on(self, worker: Worker) -> bool:
        """Whether the connection may do more work in this turn of the loop."""
        if self._queue or self._spent >= self._light_turn_seconds or worker.is_heavy:
            return False
        if self._spent >= self.turn_seconds and not worker.is_light:
            return False
        return self._share >= 1.0 or self._has_credit()

    def spent(self, served_until: float, seconds: float) -> float:
        """A connection with this virtual clock has worked for this time. Returns its new virtual clock."""
        self._spent += seconds
        if self._share < 1.0:
            self._credit -= seconds
        if not self._turn_begun:
            self._turn_begun = True
            self._loop.call_soon(self._next_turn)
        return self._start_of(served_until) + seconds

    def add(self, worker: Worker) -> None:
        """Queue a connection for its turn; only once until `take_turn` is called."""
        self._number += 1
        start = self._start_of(worker.served_until)
        queue = self._heavy if worker.is_heavy else self._queue
        heapq.heappush(queue, (start, self._number, worker))
        self._schedule()

    def _start_of(self, served_until: float) -> float:
        earliest = self._now - _LEAD_SECONDS
        return max(served_until, earliest)

    def _next_turn(self) -> None:
        """A new turn of the loop has begun."""
        self._turn_begun = False
        self._spent = 0.0

    def _schedule(self) -> None:
        if self._scheduled or not (self._queue or self._heavy):
            return
        self._scheduled = True
        pause = 0.0
        if not self._has_credit():
            pause = max(_MIN_PAUSE_SECONDS, -self._credit / self._share)
        elif not self._queue:
            pause = self._heavy_after - self._clock()
            # Light and ordinary work that arrives meanwhile must not wait for this: it schedules a turn of its own.
            self._scheduled = pause <= 0
            if pause > 0 and self._heavy_timer:
                return
            self._heavy_timer = pause > 0
        if pause > 0:
            self._loop.call_later(pause, self._serve)
        else:
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        self._scheduled = self._heavy_timer = False
        began = self._clock()
        while self._queue and self._has_credit():
            light = self._queue[0][2].is_light
            if self._clock() - began >= (self._light_turn_seconds if light else self.turn_seconds):
                break
            start, _, worker = heapq.heappop(self._queue)
            self._now = max(self._now, start)
            worker.take_turn()
        if not self._queue and self._heavy and self._has_credit():
            self._serve_heavy()
        self._schedule()

    def _serve_heavy(self) -> None:
        began = self._clock()
        if began < self._heavy_after:
            return
        waits = self._last_heavy is not None and self._last_heavy.in_flight > 0
        if waits and began < self._heavy_since + _MAX_HEAVY_WAIT_SECONDS:
            self._heavy_after = began + _LOOK_AGAIN_SECONDS
            return
        _, _, worker = heapq.heappop(self._heavy)
        worker.take_turn()
        ended = self._clock()
        self._last_heavy, self._heavy_since = worker, began
        self._heavy_after = ended + _HEAVY_PAUSES * (ended - began)

    def _has_credit(self) -> bool:
        if self._share >= 1.0:
            return True
        now = self._clock()
        gained = (now - self._credited_at) * self._share
        self._credited_at = now
        self._credit = min(self._burst, self._credit + gained)
        return self._credit > 0
