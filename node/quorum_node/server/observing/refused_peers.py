"""Log lines about connections that were refused in TLS, by this node or by another one.

Owns the texts, and how often they are logged: repeated attempts are logged once a minute.
"""

import time
from collections.abc import Callable

import structlog

_LOG = structlog.get_logger("quorum_node")
_AGAIN_AFTER_SECONDS = 60.0
_MAX_DIFFERENT = 100
"""Lines in a minute. Further refusals are counted by the metrics only."""
_MAX_OF_PEER = 20
"""Lines in a minute about one peer at one listener: it chooses user names, and so could use up all lines before it guesses passwords, or
hide what happens to others.
"""
_LAST = "; further lines about it are left out for a minute, and only counted"


class RefusedPeers:
    """`clock`: in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str, str], float] = {}

    def client_refused(self, listener: str, host: str, why: str) -> None:
        """A client at `host` was refused at a listener, or its connection was closed."""
        if self._is_new((listener, host, why)):
            _LOG.warning(
                f"{host or 'a client'} is refused at listener {listener}: {why}{self._end(listener, host)}",
                listener=listener,
                peer=host,
            )

    def server_refused(self, address: str, why: str) -> None:
        """A connection to `address` (host:port) failed: this node or the peer refused the other."""
        if self._is_new(("", address, why)):
            _LOG.warning(f"no connection to {address}: {why}{self._end('', address)}", peer=address)

    def _is_new(self, what: tuple[str, str, str]) -> bool:
        now = self._clock()
        for said in [each for each, at in self._said.items() if at + _AGAIN_AFTER_SECONDS <= now]:
            del self._said[said]
        if what in self._said or len(self._said) >= _MAX_DIFFERENT:
            return False
        if self._lines_about(*what[:2]) >= _MAX_OF_PEER:
            return False
        self._said[what] = now
        return True

    def _end(self, listener: str, peer: str) -> str:
        """The end of a line that is written now."""
        return _LAST if self._lines_about(listener, peer) >= _MAX_OF_PEER else ""

    def _lines_about(self, listener: str, peer: str) -> int:
        return sum(said[:2] == (listener, peer) for said in self._said)
