"""Authentication of connections at a port, before their first request: the interface that all ports use.

Owns the interface, and the implementation for clear text. TLS is in `tls_authentication`, which is loaded only where it is used.
"""

import asyncio
import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller


class PeerIdentity(Protocol):
    """The identity of the client. `not_after`: when it expires, in seconds since 1970."""

    @property
    def caller(self) -> Caller: ...

    @property
    def not_after(self) -> float: ...


class PortAuthentication(Protocol):
    """The authentication of one port."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context for the handshake of a new connection; None in clear text."""

    @property
    def handshake_timeout_seconds(self) -> float:
        """Timeout of a handshake."""

    @property
    def handshakes_max(self) -> int:
        """Maximum number of handshakes at a time; 0: new clients wait neither for a handshake nor for their login."""

    @property
    def handshakes_rate(self) -> int:
        """Maximum number of handshakes, or logins in clear text, that begin in a second."""

    @property
    def takes_clear_text(self) -> bool:
        """Whether clients without TLS are accepted besides those with TLS."""

    @property
    def binds_ids(self) -> bool:
        """Whether certificates authenticate which node id a client may use."""

    @property
    def changes(self) -> int:
        """How often the trusted certificates have changed."""

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> PeerIdentity | None:
        """The identity of a new connection; None if it has to be closed, which has been reported then."""

    def refused(self, address: str, error: BaseException) -> None:
        """A handshake failed: report it."""

    def is_still_valid(self, identity: PeerIdentity) -> bool:
        """Whether an open connection is still valid; the reason is reported if not."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """The identity of clients on a port in clear text."""

    caller: Caller
    not_after: float = math.inf


def _ignore(address: str, error: BaseException) -> None:
    """Without handshakes none can fail."""


@dataclass(frozen=True, slots=True)
class ClearText:
    """Accepts every client. `name`: of the listener.

    Where clients log in, `handshakes_max` and `handshakes_rate` limit those that wait for it, and `report` reports each client that is
    closed in favour of others.
    """

    name: str
    context: None = None
    handshake_timeout_seconds: float = 0.0
    handshakes_max: int = 0
    handshakes_rate: int = 1
    takes_clear_text: bool = True
    binds_ids: bool = False
    changes: int = 0
    report: Callable[[str, BaseException], None] = _ignore

    def authenticate(self, transport: asyncio.BaseTransport, address: str) -> PeerIdentity:
        """See `PortAuthentication`."""
        return Anonymous(Caller(ANONYMOUS_PRINCIPAL, address, self.name))

    def refused(self, address: str, error: BaseException) -> None:
        """See `PortAuthentication`."""
        self.report(address, error)

    def is_still_valid(self, identity: PeerIdentity) -> bool:
        """See `PortAuthentication`."""
        return True


NOT_YET = Anonymous(Caller("", "", ""))
"""Identity of a connection before it is established."""
