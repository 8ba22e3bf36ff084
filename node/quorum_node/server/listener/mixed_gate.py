"""The gate of a port that takes clear text beside TLS, while a quorum goes from the one to the other.

Owns who was last seen in clear text: the port may be closed to it when that is nobody. Who speaks TLS is asked what `TlsGate`
asks; who does not is anonymous, as on a port in clear text.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic

from quorum_node.server.listener.gate import Anonymous, ClearText, Proven
from quorum_node.server.listener.tls_gate import TlsGate

REMEMBERED_SECONDS = 60.0
"""A client that is between two connections is still one that speaks clear text."""
_MOST = 1024
_LEAST = 64
"""Connections are looked through for closed ones from this number on."""


class MixedGate:
    """See `Gate`. `gate`: of those that speak TLS."""

    takes_clear_text = True
    binds_ids = False

    def __init__(self, gate: TlsGate, clock: Callable[[], float] = monotonic) -> None:
        self._gate = gate
        self._plain = ClearText(gate.name)
        self._clock = clock
        self._open: list[tuple[asyncio.BaseTransport, str]] = []
        self._look_at = _LEAST
        self._seen: dict[str, float] = {}
        """When an address was last seen to speak clear text; the oldest first."""
        self.handshake_timeout_seconds = gate.handshake_timeout_seconds
        self.handshakes_max = gate.handshakes_max
        self.handshakes_rate = gate.handshakes_rate

    @property
    def context(self) -> ssl.SSLContext:
        """See `Gate`."""
        return self._gate.context

    @property
    def changes(self) -> int:
        """See `Gate`."""
        return self._gate.changes

    def changed(self) -> None:
        """See `TlsGate`."""
        self._gate.changed()

    def prove(self, transport: asyncio.BaseTransport, address: str) -> Proven | None:
        """See `Gate`."""
        if transport.get_extra_info("ssl_object") is not None:
            return self._gate.prove(transport, address)
        self._open.append((transport, address))
        self._note(address)
        if len(self._open) >= self._look_at:
            self._drop_closed()
        return self._plain.prove(transport, address)

    def refused(self, address: str, error: BaseException) -> None:
        """See `Gate`."""
        self._gate.refused(address, error)

    def may_stay(self, proven: Proven) -> bool:
        """See `Gate`."""
        return isinstance(proven, Anonymous) or self._gate.may_stay(proven)

    def in_clear_text(self) -> tuple[str, ...]:
        """Addresses that speak it, or did lately."""
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
