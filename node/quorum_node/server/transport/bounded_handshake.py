"""Limits how long a client's TLS can hold the event loop: bytes of its handshake, records read at once, and bytes after the end.

OpenSSL reads a chain of certificates in one step. A certificate takes 0.1 ms before it is known whether it is valid, and OpenSSL accepts
hundreds of them: without a limit a client without any valid certificate holds up commits. After the handshake a client may send records of
one byte each. A loop decrypts all of those that it has received in one turn, 11,000 in 256 KiB, which takes 13 ms for each connection.
After the server has ended a connection, the loop decrypts and drops what the client still sends, for seconds: the body of a refused request
would cost as much as that of an accepted one.
A failed handshake ends with an alert, which the loop drops. It is sent here: otherwise a client can't tell a refused certificate from a
lost connection, and stock clients connect again for a minute. Owns these limits and the alert. Must not know connections.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter
from typing import Any

from quorum_node.server.transport.undecoded_certificates import UndecodedObject

ACCEPTED: ContextVar[socket.socket | None] = ContextVar("accepted", default=None)
"""The socket of the connection that is accepted in this context."""
MAX_HANDSHAKE_BYTES = 16 << 10
"""In bytes: from a client until its handshake is complete. A chain of three RSA certificates has six KiB."""
MAX_BYTES_AFTER_END = 256 << 10
"""In bytes: from a client after the server has ended the connection. Further ones end it at once, as unread bytes do without TLS."""
RECORDS_AT_ONCE = 32
"""Records that are read at once if there are further ones: twice as many as usual clients need for 256 KiB."""
_RECORD_SECONDS = 50e-6
"""In seconds: what takes longer counts as several records. One of 16 KiB takes 10 µs."""
_PIECE_BYTES = 32 << 10
"""Bytes that are passed on to OpenSSL at once; the others count as not read, so that the loop reads no more of them."""


class HandshakeTooLarge(ssl.SSLError):
    """The limit is exceeded. `reason`: as OpenSSL names its own."""

    def __init__(self) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, f"more than {MAX_HANDSHAKE_BYTES} bytes")
        self.reason = "HANDSHAKE_TOO_LARGE"


class TooMuchAfterEnd(ssl.SSLError):
    """The client has sent more than MAX_BYTES_AFTER_END."""

    def __init__(self) -> None:
        super().__init__(ssl.SSL_ERROR_SSL, f"more than {MAX_BYTES_AFTER_END} bytes after the end")


class BoundedHandshake(UndecodedObject):
    """A server's side of one connection. OpenSSL reads from `given`, which is filled from `received` up to the limit."""

    _received: ssl.MemoryBIO
    _given: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _accepted: socket.socket | None
    _left_bytes: int
    _left_records: int = RECORDS_AT_ONCE
    _has_more: Callable[[], None] | None = None
    _has_ended: bool = False
    _left_bytes_after_end: int = MAX_BYTES_AFTER_END

    def bound(self, received: ssl.MemoryBIO, given: ssl.MemoryBIO, outgoing: ssl.MemoryBIO) -> None:
        """Called once, before the handshake."""
        self._received, self._given, self._outgoing = received, given, outgoing
        self._accepted = ACCEPTED.get()
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
            except ssl.SSLError:
                self._send_alert()
                raise

    def in_turns(self, has_more: Callable[[], None]) -> None:
        """Read at most RECORDS_AT_ONCE records at once from now on. `has_more`: called when `read_on` has to be called for the next ones."""
        self._has_more = has_more

    def read_on(self) -> None:
        """The next records may be read."""
        self._left_records = RECORDS_AT_ONCE

    def read(self, len: int = 1024, buffer: Any = None) -> bytes:
        """See `ssl.SSLObject`. Raises SSLWantReadError also if records have to wait for `read_on`, and TooMuchAfterEnd."""
        given, received = self._given, self._received
        if not self._left_records:
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "the next records have to wait")
        if not given.pending:
            self._pass_on()
        began = perf_counter()
        while True:
            try:
                data = super().read(len, buffer)
                break
            except ssl.SSLWantReadError:  # the last record is not complete
                if not received.pending:
                    self._left_records = RECORDS_AT_ONCE
                    raise
                self._pass_on()
        if not (given.pending or received.pending):
            self._left_records = RECORDS_AT_ONCE
        elif self._has_more is not None:
            # Before its data a record may have others, which change keys.
            records = 1 + int((perf_counter() - began) / _RECORD_SECONDS)
            self._left_records = max(0, self._left_records - records)
            if not self._left_records:
                self._has_more()
        return data

    def pending(self) -> int:
        """See `ssl.SSLObject`. The loop reads as long as it is not 0: bytes that arrived with the end of the handshake count."""
        return super().pending() + self._given.pending

    def unwrap(self) -> None:
        """See `ssl.SSLObject`. The loop calls it when the connection ends: the server's part of the end is sent first."""
        self._has_ended = True
        self._given.write(self._received.read())
        super().unwrap()

    def _send_alert(self) -> None:
        """As far as possible: the connection ends in any case."""
        if self._accepted is not None:
            with contextlib.suppress(OSError):
                self._accepted.send(self._outgoing.read())

    def _pass_on(self) -> None:
        passed_bytes = self._given.write(self._received.read(_PIECE_BYTES))
        if self._has_ended:
            self._left_bytes_after_end -= passed_bytes
            if self._left_bytes_after_end < 0:
                raise TooMuchAfterEnd


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
        made.bound(incoming, given, outgoing)
        return made
