"""Who comes in at a port, before its first request: what all ports ask of whoever stands at theirs.

Owns the shape, and the gate of a port in clear text. That of TLS is in `tls_gate`, which is loaded where a port speaks it.
"""

import asyncio
import math
import ssl
from dataclasses import dataclass
from typing import Protocol

from quorum_node.security.caller import ANONYMOUS_PRINCIPAL, Caller


class Proven(Protocol):
    """What is known of the other end. `not_after`: when it is known no more, in seconds since 1970."""

    @property
    def caller(self) -> Caller: ...

    @property
    def not_after(self) -> float: ...


class Gate(Protocol):
    """Of one port."""

    @property
    def context(self) -> ssl.SSLContext | None:
        """For the handshake of a connection that is accepted now; None in clear text."""

    @property
    def handshake_timeout_seconds(self) -> float:
        """How long a handshake may take."""

    @property
    def handshakes_max(self) -> int:
        """How many there may be at a time."""

    @property
    def handshakes_rate(self) -> int:
        """How many may begin in a second."""

    @property
    def takes_clear_text(self) -> bool:
        """Whether those that do not speak TLS are let in beside those that do."""

    @property
    def binds_ids(self) -> bool:
        """Whether a node shows by its certificate which id it may use."""

    @property
    def changes(self) -> int:
        """How often what is trusted has changed."""

    def prove(self, transport: asyncio.BaseTransport, address: str) -> Proven | None:
        """Who has connected; None if the connection has to end, which is told already."""

    def refused(self, address: str, error: BaseException) -> None:
        """A handshake failed."""

    def may_stay(self, proven: Proven) -> bool:
        """Whether a connection that was let in may go on; told if not."""


@dataclass(frozen=True, slots=True)
class Anonymous:
    """Nobody has to say who they are on a port in clear text."""

    caller: Caller
    not_after: float = math.inf


@dataclass(frozen=True, slots=True)
class ClearText:
    """Lets everybody in. `name`: of the listener."""

    name: str
    context: None = None
    handshake_timeout_seconds: float = 0.0
    handshakes_max: int = 0
    handshakes_rate: int = 1
    takes_clear_text: bool = True
    binds_ids: bool = False
    changes: int = 0

    def prove(self, transport: asyncio.BaseTransport, address: str) -> Proven:
        """See `Gate`."""
        return Anonymous(Caller(ANONYMOUS_PRINCIPAL, address, self.name))

    def refused(self, address: str, error: BaseException) -> None:
        """There are no handshakes."""

    def may_stay(self, proven: Proven) -> bool:
        """See `Gate`."""
        return True


NOT_YET = Anonymous(Caller("", "", ""))
"""Before the connection is made."""
