"""Frames out of a stream: in any pieces, without more memory or copying than the bytes are worth."""

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.schema.schema import MalformedMessage
from quorum_node.server.transport.frame_cutter import _VIEW_FROM_BYTES, FrameCutter

MAX_BYTES = 8 << 20


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def cut(cutter: FrameCutter) -> list[bytes]:
    found = []
    while (frame := cutter.next()) is not None:
        found.append(bytes(frame))
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=12), max_size=6), st.lists(st.integers(1, 9)), st.booleans())
def test_any_chunking_gives_the_same_frames(
    bodies: list[bytes], pieces: list[int], late: bool
) -> None:
    """`late`: frames are taken out only after everything has arrived, as from a busy connection."""
    stream = b"".join(map(framed, bodies))
    cutter, found, position = FrameCutter(100), [], 0
    for size in [*pieces, len(stream)]:
        cutter.feed(stream[position : position + size])
        position += size
        if not late or len(cutter._partial):
            found += cut(cutter)
    found += cut(cutter)
    assert found == bodies
    assert not cutter.has_more


def test_frame_is_returned_as_soon_as_it_is_complete() -> None:
    cutter = FrameCutter(100)
    cutter.feed(framed(b"one") + framed(b"two")[:5])
    assert cut(cutter) == [b"one"]
    assert not cutter.has_more
    cutter.feed(b"wo")
    assert cut(cutter) == [b"two"]


@pytest.mark.parametrize("size", [-1, 101, 0x7FFFFFFF])
def test_invalid_frame_size_is_rejected_as_soon_as_it_is_read(size: int) -> None:
    cutter = FrameCutter(100)
    cutter.feed(struct.pack(">i", size)[:3])
    assert cutter.next() is None
    cutter.feed(struct.pack(">i", size)[3:])
    with pytest.raises(MalformedMessage, match="limit"):
        cutter.next()


def test_announced_size_reserves_no_memory() -> None:
    cutter = FrameCutter(MAX_BYTES)
    tracemalloc.start()
    cutter.feed(struct.pack(">i", MAX_BYTES) + b"x")
    assert cutter.next() is None
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 10_000


def test_slowly_received_frame_is_not_copied_with_every_chunk() -> None:
    """The largest frame in small pieces: within the memory of one connection, and in no time."""
    stream, cutter = framed(b"\x01" * MAX_BYTES), FrameCutter(MAX_BYTES)
    tracemalloc.start()
    for position in range(0, len(stream), 500):
        cutter.feed(stream[position : position + 500])
        frame = cutter.next()
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert frame is not None
    assert bytes(frame) == stream[4:]
    assert peak_bytes < 3 * MAX_BYTES


def test_large_frame_is_a_view_and_a_small_one_is_copied() -> None:
    cutter = FrameCutter(MAX_BYTES)
    cutter.feed(framed(b"a" * _VIEW_FROM_BYTES) + framed(b"b"))
    large, small = cutter.next(), cutter.next()
    assert isinstance(large, memoryview)
    assert isinstance(small, bytes)
    assert (bytes(large), small) == (b"a" * _VIEW_FROM_BYTES, b"b")
