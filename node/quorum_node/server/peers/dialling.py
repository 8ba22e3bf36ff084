"""How this node reaches others, before the first request: in clear text, or by TLS with who is expected there.

Owns the shape, and clear text. TLS is in `tls_dialling`, which is loaded where members dial by it.
"""

import asyncio
import math
import ssl
from dataclasses import dataclass
from typing import Protocol


class WrongPeer(ConnectionError):
    """Somebody answers, and it is not who was dialled."""


class ClosedEarly(ConnectionError):
    """Who was dialled closes the connection before it has answered anything."""


class Dialling(Protocol):
    """What a connection needs that is being opened."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the handshake of a connection that is opened now; None in clear text."""

    @property
    def handshake_timeout_seconds(self) -> float | None:
        """How long a handshake may take; None without one."""

    def check(self, transport: asyncio.BaseTransport, host: str, port: int) -> float:
        """Until when who answers has proved who it is, in seconds since 1970. Raises WrongPeer."""

    def failed(self, host: str, port: int, error: BaseException) -> None:
        """There is no connection, for a reason that somebody may have to hear."""


@dataclass(frozen=True, slots=True)
class DialInClearText:
    """Nobody proves anything."""

    context: None = None
    handshake_timeout_seconds: None = None

    def check(self, transport: asyncio.BaseTransport, host: str, port: int) -> float:
        """See `Dialling`."""
        return math.inf

    def failed(self, host: str, port: int, error: BaseException) -> None:
        """A peer that is not there is told by others."""
