"""A transport that keeps what is written, in place of a socket."""

import asyncio
import struct
from collections.abc import Callable


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, peername: tuple[str, int, int, int] | None = None) -> None:
        super().__init__({} if peername is None else {"peername": peername})
        self.written = b""
        self.is_closed = False
        self.reads = True
        self._changed = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)
        self._changed.set()

    def close(self) -> None:
        self.is_closed = True
        self._changed.set()

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is met, which a write or a close can change. Raises TimeoutError after ten seconds."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def frames(self) -> list[bytes]:
        """All frames so far, without their sizes."""
        found, rest = [], self.written
        while rest:
            (size_bytes,) = struct.unpack_from(">i", rest)
            found.append(rest[4 : 4 + size_bytes])
            rest = rest[4 + size_bytes :]
        return found

    def correlation_ids(self) -> list[int]:
        """Correlation ids of the answers so far."""
        return [int.from_bytes(frame[:4], "big") for frame in self.frames()]
