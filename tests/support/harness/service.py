"""A stable address for the ready pods of a quorum: what a Service with a cluster address does.

Owns forwarding of TCP connections, each to the next ready pod. Knows nothing of what they carry.
"""

import asyncio
import contextlib
from collections.abc import Callable

_CHUNK_BYTES = 65_536


class TcpService:
    """Listens on a port of 127.0.0.1; `addresses` names the ready pods at the time of a connection."""

    def __init__(self, addresses: Callable[[], list[str]], target_port: int) -> None:
        self.port = 0
        self._addresses = addresses
        self._target_port = target_port
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            there = await self._connect()
            if there is not None:
                await _join(reader, writer, *there)
        except (ConnectionError, asyncio.CancelledError):
            pass  # either end is gone, or the service is closing
        finally:
            self._connections.discard(task)
            await _close(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """To the next pod that accepts; None when none does."""
        known = self._addresses()
        for _ in known:
            self._turn += 1
            address = known[self._turn % len(known)]
            # Without a time limit: on one machine it is there or refused at once.
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(address, self._target_port)
        return None


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Passes bytes both ways until one side ends."""
    ways = [
        asyncio.create_task(_copy(reader, far_writer)),
        asyncio.create_task(_copy(far_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        await _close(far_writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
