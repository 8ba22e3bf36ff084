"""Whether who has connected speaks TLS, by the first byte, which stays unread.

A handshake begins with the type of its record, 22 (RFC 8446, 5.1). A request of Kafka begins with its length in four bytes: the
first is 22 from 369 MB on, which no listener takes. A request of HTTP begins with a letter.
"""

import asyncio
import socket

HANDSHAKE = b"\x16"
SILENT_SECONDS = 1.0
"""Who says nothing for so long speaks clear text: a client of TLS begins at once, and a connection that is kept for later does not."""


async def speaks_tls(connection: socket.socket, silent_seconds: float = SILENT_SECONDS) -> bool:
    """Wait for the first byte. Raises OSError if the connection is lost."""
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
