"""Authentication at a port that accepts clear text besides TLS, while a quorum migrates from one to the other.

Owns the list of recent clients in clear text: the migration is complete when it is empty. Clients with TLS are authenticated as by
`TlsAuthentication`; others are anonymous, as on a port in clear text.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic

from quorum_node.server.listener.port_authentication import Anonymous, ClearText, PeerIdentity
from quorum_node.server.listener.tls_authentication import TlsAuthentication

REMEMBERED_SECONDS = 60.0
"""In seconds: a client between two connections still counts as one in clear text."""
_MOST = 1024
_LEAST = 64
"""Closed connections are removed from the list when it reaches this size."""


class MixedAuthentication:
    """See `PortAuthentication`. `authentication`: authenticates the clients with TLS."""

    takes_clear_text = True
    binds_ids = False

    def __init__(
        self, authentication: TlsAuthentication, clock: Callable[[], float] = monotonic
    ) -> None:
        self._authentication = authentication
        self._plain = ClearText(authentication.name)
        self._clock = clock
        self._open: list[tuple[asyncio.BaseTransport, str]] = []
        self._look_at = _LEAST
        self._seen: dict[str, float] = {}
        """When an address last used clear text, the oldest first."""
        self.handshake_timeout_seconds = authentication.handshake_timeout_seconds
        self.handshakes_max = authentication.handshakes_max
        self.handshakes_rate = authentication.handshakes_rate

    @property
    def context(self) -> ssl.SSLContext:
        """See `PortAuthentication`."""
        return self._authentication.context

    @property
    def changes(self) -> int:
        """See `PortAuthentication`."""
        return self._authentication.changes

    def changed(self) -> None:
        """See `TlsAuthentication`."""
        self._authentication.changed()

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> PeerIdentity | None:
        """See `PortAuthentication`."""
        if transport.get_extra_info("ssl_object") is not None:
            return self._authentication.authenticate(transport, address)
        self._open.append((transport, address))
        self._note(address)
        if len(self._open) >= self._look_at:
            self._drop_closed()
        return self._plain.authenticate(transport, address)

    def refused(self, address: str, error: BaseException) -> None:
        """See `PortAuthentication`."""
        self._authentication.refused(address, error)

    def is_still_valid(self, identity: PeerIdentity) -> bool:
        """See `PortAuthentication`."""
        return isinstance(identity, Anonymous) or self._authentication.is_still_valid(identity)

    def in_clear_text(self) -> tuple[str, ...]:
        """Addresses that use clear text, or did recently."""
        self._drop_closed()
        oldest = self._clock() - REMEMBERED_SECONDS
        self._seen = {each: at for each, at in self._seen.items() if at >= oldest}
        return tuple(sorted(self._seen))

    def _drop_closed(self) -> None:
        self._open = [each for each in self._open if not each[0].is_closing()]
        self._look_at = max(_LEAST, 2 * len(self._open))
        for _, address in self._open:
            self._note(address)

    def _note(self, address: str) -> None:
        self._seen.pop(address, None)
        if len(self._seen) >= _MOST:
            del self._seen[next(iter(self._seen))]
        self._seen[address] = self._clock()
