"""Sends large answers over TLS in slices, one in each turn of the loop: encrypting 8 MiB at once would block it for too long. Many small
records of a client are read in turns, too.

Owns the part of an answer that has not been passed on yet. In clear text there is nothing to slice: the kernel copies.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol, cast

from quorum_node.server.transport.bounded_handshake import BoundedHandshake

SLICE_BYTES = 128 << 10
"""In bytes: encrypting this much takes less than a millisecond, also on a slow or busy machine."""

AS_LARGE_AS_BYTES = 64 << 10
"""In bytes: to read a turn's worth of small records takes as long as to read this much of a large request."""


class ReadTurns(Protocol):
    """The turns of connections whose reading takes long."""

    def has_read(self, reader: "SlicedTransport", size_bytes: int) -> None:
        """It has read so much; `read_on` is called in its next turn."""


def in_slices(
    transport: asyncio.BaseTransport,
    loop: asyncio.AbstractEventLoop,
    turns: ReadTurns | None = None,
) -> "asyncio.Transport | SlicedTransport":
    """A sliced transport for TLS; in clear text the transport itself. `turns`: for clients that send many small records."""
    plain = cast(asyncio.Transport, transport)  # uvloop's transports are no subclasses of it
    encrypted = plain.get_extra_info("ssl_object")
    if encrypted is None:
        return plain
    made = SlicedTransport(plain, loop)
    if turns is not None and isinstance(encrypted, BoundedHandshake):
        made.read_in_turns(encrypted, turns)
    return made


class SlicedTransport:
    """The methods of a transport that connections use."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._left: deque[memoryview] = deque()
        self._left_bytes = 0
        self._closes = False
        self._is_paused = False
        self._records: BoundedHandshake | None = None

    def read_in_turns(self, records: BoundedHandshake, turns: ReadTurns) -> None:
        """Many records of the client that arrive at once are read in several turns."""
        self._records = records
        records.in_turns(lambda: turns.has_read(self, AS_LARGE_AS_BYTES))

    def stop_reading(self) -> None:
        """See `large_reads.Reader`: the next records wait already."""

    def read_on(self) -> None:
        """See `large_reads.Reader`."""
        assert self._records is not None
        self._records.read_on()
        if not self._is_paused and not self.is_closing():
            # The only way to have the loop look for records that it has received.
            self._transport.pause_reading()
            self._transport.resume_reading()

    def write(self, data: bytes | memoryview) -> None:
        """Write after the data of earlier calls."""
        if not self._left and len(data) <= SLICE_BYTES:
            self._transport.write(data)
            return
        if not self._left:
            self._loop.call_soon(self._next)
        self._left.append(memoryview(data))
        self._left_bytes += len(data)

    def writelines(self, parts: Iterable[bytes | memoryview]) -> None:
        """Write the parts in order, without joining them."""
        for part in parts:
            self.write(part)

    def close(self) -> None:
        """Close when all data is written."""
        self._closes = True
        if not self._left:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; unsent data is dropped."""
        self._left.clear()
        self._left_bytes = 0
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether it closes, or will when all data is written."""
        return self._closes or self._transport.is_closing()

    def pause_reading(self) -> None:
        """See asyncio."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See asyncio."""
        self._is_paused = False
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """See asyncio."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Bytes that the other side has not received, including those that are not encrypted yet."""
        return self._transport.get_write_buffer_size() + self._left_bytes

    def _next(self) -> None:
        if not self._left:
            return  # aborted
        if self._transport.is_closing():
            self._left.clear()
            self._left_bytes = 0
            return
        first = self._left.popleft()
        piece, rest = first[:SLICE_BYTES], first[SLICE_BYTES:]
        if rest:
            self._left.appendleft(rest)
        self._left_bytes -= len(piece)
        self._transport.write(piece)
        if self._left:
            self._loop.call_soon(self._next)
        elif self._closes:
            self._transport.close()
