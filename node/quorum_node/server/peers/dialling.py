"""How this node connects to others: in clear text, or by TLS with a check of the peer's identity.

Owns the interface, and clear text. TLS is in `tls_dialling`, which is loaded only where it is used.
"""

import asyncio
import math
import ssl
from dataclasses import dataclass
from typing import Protocol


class WrongPeer(ConnectionError):
    """The peer that answers is not the expected one."""


class ClosedEarly(ConnectionError):
    """The peer closes the connection before its first answer."""


class Dialling(Protocol):
    """The security of a connection that is being opened."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """The context of the TLS handshake; None in clear text."""

    @property
    def handshake_timeout_seconds(self) -> float | None:
        """Timeout of a handshake; None without one."""

    def check(self, transport: asyncio.BaseTransport, host: str, port: int) -> float:
        """Check the peer's identity. Returns when it expires, in seconds since 1970. Raises WrongPeer."""

    def failed(self, host: str, port: int, error: BaseException) -> None:
        """The connection failed; report the reason if an operator should know it."""


@dataclass(frozen=True, slots=True)
class DialInClearText:
    """No authentication."""

    context: None = None
    handshake_timeout_seconds: None = None

    def check(self, transport: asyncio.BaseTransport, host: str, port: int) -> float:
        """See `Dialling`."""
        return math.inf

    def failed(self, host: str, port: int, error: BaseException) -> None:
        """Unreachable peers are reported elsewhere."""
