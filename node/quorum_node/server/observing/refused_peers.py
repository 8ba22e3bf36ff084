"""What people read of connections that TLS did not let in, or that did not get in elsewhere: one log line each.

Owns wording, and how often something is said: whoever tries again and again is told of once a minute.
"""

import time
from collections.abc import Callable

import structlog

_LOG = structlog.get_logger("quorum_node")
_AGAIN_AFTER_SECONDS = 60.0
_MAX_DIFFERENT = 100
"""In a minute. What is beyond is counted by the metrics alone."""


class RefusedPeers:
    """`clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[tuple[str, str, str], float] = {}

    def client_refused(self, listener: str, host: str, why: str) -> None:
        """Somebody at `host` was not let in at a listener, or has to leave it."""
        if self._is_news((listener, host, why)):
            _LOG.warning(
                f"{host or 'a client'} is refused at listener {listener}: {why}",
                listener=listener,
                peer=host,
            )

    def server_refused(self, address: str, why: str) -> None:
        """This node dialled `address` (host:port) and does not speak with who is there, or the other way round."""
        if self._is_news(("", address, why)):
            _LOG.warning(f"no connection to {address}: {why}", peer=address)

    def _is_news(self, what: tuple[str, str, str]) -> bool:
        now = self._clock()
        for said in [each for each, at in self._said.items() if at + _AGAIN_AFTER_SECONDS <= now]:
            del self._said[said]
        if what in self._said or len(self._said) >= _MAX_DIFFERENT:
            return False
        self._said[what] = now
        return True
