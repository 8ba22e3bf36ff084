"""Detects TLS by a client's first byte, without consuming it.

A TLS handshake begins with its record type, 22 (RFC 8446, 5.1). A Kafka request begins with its length in four bytes: the first is 22
only from 369 MB on, which no listener accepts. An HTTP request begins with a letter.
"""

import asyncio
import socket

HANDSHAKE = b"\x16"
SILENT_SECONDS = 1.0
"""A client that sends nothing for this time is assumed to use clear text: TLS clients begin at once, pooled connections do not."""


async def speaks_tls(connection: socket.socket, silent_seconds: float = SILENT_SECONDS) -> bool:
    """Wait for the first byte, and return whether it begins a TLS handshake. Raises OSError if the connection is lost."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    descriptor = connection.fileno()

    def ready() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(descriptor, ready)
    try:
        await asyncio.wait_for(readable, silent_seconds)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(descriptor)
    try:
        return connection.recv(1, socket.MSG_PEEK) == HANDSHAKE
    except BlockingIOError:
        return False
