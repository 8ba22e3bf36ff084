"""Usage of a listener by one principal, over all its connections: unanswered requests, and time of the loop.

One certificate or password can open many connections, each with its own limits. So all connections of a principal share one virtual clock
(see `fair_turns`), one limit of requests, and one quota of time, like Kafka's `request_percentage` of a user. The quota applies only
while others need the loop as well: a broker that forwards its clients' requests may use all of an idle node. Anonymous callers can't be
told apart, so each of their connections has its own share. Connections and bytes of a principal are in `connection_book`.
"""

import math
from collections.abc import Callable
from time import perf_counter
from typing import Protocol
from weakref import WeakValueDictionary

from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller
from quorum_node.security.certificate_identity import Role
from quorum_node.server.listener.loop_work import LoopWork

BURST_SECONDS = 0.25
"""In seconds: work that a principal may do at once after an idle time."""
MIN_PART_OF_OTHERS = 0.02
"""Part of the loop's time: if others use less (heartbeats, scrapes), no principal is throttled."""
_WITHOUT_QUOTA = frozenset({Role.MEMBER, Role.ADMIN, Role.OPERATOR})


class Reader(Protocol):
    """A connection that is not read while its principal has too many requests, or has used up its time."""

    def may_read_again(self) -> None:
        """Reading may continue. Has no effect on a closed connection."""


class Loop(Protocol):
    """The method of the event loop that is used here."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> object: ...


class Share:
    """The share of one principal. `max_requests`: beyond it, its connections are not read.

    `part`: of the loop's time, while others need it. `work`: of all callers; every share adds its own.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_credit",
        "_credited_at",
        "_loop",
        "_max_requests",
        "_own_work",
        "_part",
        "_readers",
        "_timed",
        "_work",
        "requests",
        "served_until",
    )

    def __init__(
        self,
        loop: Loop | None = None,
        max_requests: float = math.inf,
        part: float = 1.0,
        clock: Callable[[], float] = perf_counter,
        work: LoopWork | None = None,
    ) -> None:
        self.served_until = 0.0
        """Its virtual clock, in seconds of work: see `fair_turns.Worker`."""
        self.requests = 0
        """Requests that are received and not answered."""
        self._loop = loop
        self._max_requests = max_requests
        self._part = part
        self._clock = clock
        self._credit, self._credited_at = BURST_SECONDS, clock()
        self._work = LoopWork(clock) if work is None else work
        self._own_work = LoopWork(clock)
        self._readers: set[Reader] = set()
        self._timed = False

    @property
    def is_used_up(self) -> bool:
        """Whether no more requests are accepted for now."""
        if self.requests >= self._max_requests:
            return True
        return self._part < 1.0 and self._pause_seconds() > 0

    def move_to(self, seconds: float) -> None:
        """Set its virtual clock."""
        self.served_until = seconds

    def received(self, count: int) -> None:
        """This number of requests was received; see `answered`."""
        self.requests += count

    def spent(self, seconds: float) -> None:
        """Its requests have used this much of the loop's time."""
        self._work.add(seconds)
        if self._part < 1.0:
            self._own_work.add(seconds)
            self._earn()
            if self._work_of_others():
                self._credit -= seconds

    def wait(self, reader: Reader) -> None:
        """Call the reader when there is time again; if there were too many requests, when half of them are answered."""
        self._readers.add(reader)
        pause = self._pause_seconds()
        if pause > 0 and not self._timed and self._loop is not None:
            self._timed = True
            self._loop.call_later(pause, self._time_is_back)

    def answered(self, count: int) -> None:
        """This number of requests is answered or abandoned."""
        self.requests -= count
        if not self._timed and self.requests <= self._max_requests / 2:
            self._wake()

    def _work_of_others(self) -> bool:
        return self._work.recent() - self._own_work.recent() > MIN_PART_OF_OTHERS

    def _time_is_back(self) -> None:
        self._timed = False
        if self.requests < self._max_requests:
            self._wake()

    def _wake(self) -> None:
        readers, self._readers = self._readers, set()
        for each in readers:
            each.may_read_again()

    def _pause_seconds(self) -> float:
        if self._part >= 1.0 or self._credit > 0:
            return 0.0
        self._earn()
        return max(0.0, -self._credit / self._part)

    def _earn(self) -> None:
        now = self._clock()
        gained = (now - self._credited_at) * self._part
        self._credit = min(BURST_SECONDS, self._credit + gained)
        self._credited_at = now


class PrincipalShares:
    """The shares of one listener. A share exists as long as a connection uses it. `percentage`: of the loop's time. `work`: of all
    listeners.
    """

    def __init__(self, loop: Loop, max_requests: int, percentage: int, work: LoopWork) -> None:
        self._loop = loop
        self._work = work
        self._max_requests = max_requests
        self._part = percentage / 100
        self._shares: WeakValueDictionary[str, Share] = WeakValueDictionary()

    def of(self, caller: Caller) -> Share:
        """The share of all connections of the principal."""
        if is_anonymous(caller):
            return Share(work=self._work)
        found = self._shares.get(caller.principal)
        if found is None:
            role = None if caller.identity is None else caller.identity.role
            part = 1.0 if role in _WITHOUT_QUOTA else self._part
            found = Share(self._loop, self._max_requests, part, work=self._work)
            self._shares[caller.principal] = found
        return found


def is_anonymous(caller: Caller) -> bool:
    """Whether the caller is anonymous."""
    return caller.principal in ("", ANONYMOUS_PRINCIPAL)
