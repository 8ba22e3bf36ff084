"""Time of the loop for connections that send requests in the name of a voter, where no certificate proves it.

Requests of voters are served at once, as every commit waits for them. In clear text anybody can claim to be a voter. So all such connections
together are served at once for a part of each turn of the loop, which is several times what voters need. Then they wait for a turn like
others, and a voter, which has used least, is served first. Must not know requests.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from quorum_node.server.listener.fair_turns import TURN_SECONDS
from quorum_node.server.listener.large_reads import LARGE_BYTES


class Loop(Protocol):
    """The method of the event loop that is used here."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class ClaimedVoters:
    """`turn_seconds`: of each turn of the loop. `clock`: in seconds."""

    def __init__(
        self,
        loop: Loop,
        turn_seconds: float = TURN_SECONDS,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._loop = loop
        self._turn_seconds = turn_seconds
        self._clock = clock
        self._spent = 0.0

    def may_go_on(self, size_bytes: int) -> bool:
        """Whether a connection with so many received bytes is served at once. Voters send less."""
        return self._spent < self._turn_seconds and size_bytes <= LARGE_BYTES

    def do(self, work: Callable[[], None]) -> None:
        """Do the work of such a connection."""
        began = self._clock()
        work()
        if not self._spent:
            self._loop.call_soon(self._next_turn)
        self._spent += self._clock() - began

    def _next_turn(self) -> None:
        self._spent = 0.0
