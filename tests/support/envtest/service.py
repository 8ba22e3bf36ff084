"""A stable address for the ready pods of a quorum, like a Service with a cluster address.

Owns the forwarding of TCP connections, each to the next ready pod, optionally over TLS. Must not know their content.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass

_CHUNK_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class PodTlsAccess:
    """Access to pods with TLS: the client's context, and the name in each pod's certificate."""

    context: Callable[[], ssl.SSLContext]
    host: str


class TcpService:
    """Listens on a port of 127.0.0.1; `addresses` names the ready pods at the time of a connection.

    With `tls_access` it speaks TLS to the pods, and plain text to who connects: the contexts are asked for at each connection.
    """

    def __init__(
        self,
        addresses: Callable[[], list[str]],
        target_port: int,
        tls_access: "PodTlsAccess | None" = None,
    ) -> None:
        self._way_in = tls_access
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
            pass  # one side has closed, or the service is closing
        finally:
            self._connections.discard(task)
            await _close(writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the next pod that accepts; None if no pod does."""
        known = self._addresses()
        context = None
        if self._way_in is not None:
            context = await asyncio.to_thread(self._way_in.context)
        name = self._way_in.host if self._way_in is not None else None
        for _ in known:
            self._turn += 1
            address = known[self._turn % len(known)]
            # Without a time limit: on one machine a connection succeeds or is refused at once.
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(
                    address, self._target_port, ssl=context, server_hostname=name
                )
        return None


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Copy bytes in both directions until one side ends."""
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
