"""Cuts complete frames out of a stream of bytes that arrive in pieces of any size.

Owns the received part of an incomplete frame: no memory is allocated for a size that a sender only announces, and a frame that arrives in
small pieces is not copied again with every piece. Knows sizes, not messages.
"""

from quorum_node.protocol.frames import SIZE_BYTES, read_size
from quorum_node.schema.primitives import Buffer

_VIEW_FROM_BYTES = 64 << 10
"""In bytes: frames of at least this size are returned as a view, to avoid copying large fetch answers."""


class FrameCutter:
    """The frames of one direction of a connection."""

    __slots__ = ("_data", "_max_frame_bytes", "_partial", "_position", "_wanted")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._data: Buffer = b""
        self._position = 0
        self._partial = bytearray()
        self._wanted = 0

    def allow(self, max_frame_bytes: int) -> None:
        """Set another limit."""
        self._max_frame_bytes = max_frame_bytes

    def feed(self, data: bytes) -> None:
        """The next bytes of the stream."""
        if self._position < len(self._data):  # frames that are not processed yet
            self._data, self._position = bytes(self._data[self._position :]) + data, 0
            return
        if not self._partial:
            self._data, self._position = data, 0
            return
        self._partial += data
        if len(self._partial) >= self._wanted:
            self._data, self._position = memoryview(self._partial), 0
            self._partial = bytearray()

    def next(self) -> Buffer | None:
        """The next frame without its size; None until it is complete. Raises MalformedMessage."""
        data, position = self._data, self._position
        left = len(data) - position
        if not left:
            return None
        wanted = SIZE_BYTES
        if left >= SIZE_BYTES:
            wanted += read_size(data, self._max_frame_bytes, position)
            if left >= wanted:
                return self._cut(position + SIZE_BYTES, position + wanted)
        self._partial = bytearray(memoryview(data)[position:])
        self._wanted = wanted
        self._data, self._position = b"", 0
        return None

    @property
    def has_more(self) -> bool:
        """Whether there are unprocessed bytes, maybe complete frames."""
        return self._position < len(self._data)

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of the incomplete frame."""
        return len(self._partial)

    @property
    def waiting_bytes(self) -> int:
        """Number of unprocessed bytes."""
        return len(self._data) - self._position

    def clear(self) -> None:
        """Drop all bytes."""
        self._data, self._position = b"", 0
        self._partial = bytearray()

    def _cut(self, start: int, end: int) -> Buffer:
        data = self._data
        if end == len(data):
            self._data, self._position = b"", 0
        else:
            self._position = end
        if end - start >= _VIEW_FROM_BYTES:
            return memoryview(data)[start:end]
        return bytes(data[start:end])
