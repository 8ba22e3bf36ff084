"""Limits the bytes of a client's handshake, as OpenSSL reads a chain of certificates in one step on the event loop.

A certificate takes 0.1 ms before it is known whether it is valid, and OpenSSL accepts hundreds of them: without the limit a client without
any valid certificate holds up commits. Owns the limit. Bytes after the handshake pass unchanged.
"""

import ssl
from typing import Any

MAX_HANDSHAKE_BYTES = 16 << 10
"""In bytes: from a client until its handshake is complete. A chain of three RSA certificates has six KiB."""


class HandshakeTooLarge(ssl.SSLError):
    """The limit is exceeded. `reason`: as OpenSSL names its own."""

    def __init__(self) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, f"more than {MAX_HANDSHAKE_BYTES} bytes")
        self.reason = "HANDSHAKE_TOO_LARGE"


class BoundedHandshake(ssl.SSLObject):
    """A server's side of one connection. OpenSSL reads from `given`, which is filled from `received` up to the limit."""

    _received: ssl.MemoryBIO
    _given: ssl.MemoryBIO
    _left_bytes: int

    def bound(self, received: ssl.MemoryBIO, given: ssl.MemoryBIO) -> None:
        """Called once, before the handshake."""
        self._received, self._given = received, given
        self._left_bytes = MAX_HANDSHAKE_BYTES

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`. Raises HandshakeTooLarge."""
        while True:
            piece = self._received.read(self._left_bytes) if self._left_bytes else b""
            self._left_bytes -= self._given.write(piece)
            try:
                super().do_handshake()
                return
            except ssl.SSLWantReadError:
                if self._left_bytes or not self._received.pending:
                    raise
                raise HandshakeTooLarge from None

    def read(self, len: int = 1024, buffer: Any = None) -> bytes:
        """See `ssl.SSLObject`."""
        self._pass_on()
        return super().read(len, buffer)

    def pending(self) -> int:
        """See `ssl.SSLObject`. The loop reads as long as it is not 0: bytes that arrived with the end of the handshake count."""
        return super().pending() + self._given.pending

    def unwrap(self) -> None:
        """See `ssl.SSLObject`."""
        self._pass_on()
        super().unwrap()

    def _pass_on(self) -> None:
        if self._received.pending:
            self._given.write(self._received.read())


class BoundedContext(ssl.SSLContext):
    """A context for accepted connections."""

    sslobject_class = BoundedHandshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """See `ssl.SSLContext`."""
        given = ssl.MemoryBIO()
        made = super().wrap_bio(given, outgoing, server_side, server_hostname, session)
        assert isinstance(made, BoundedHandshake)
        made.bound(incoming, given)
        return made
