"""Flips one bit of a file temporarily. Must not know which part has to detect it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def flipped_bit(file: Path, position: int) -> Iterator[None]:
    """In the byte at `position`; afterwards the file is restored."""
    original = file.read_bytes()
    content = bytearray(original)
    content[position] ^= 1 << position % 8
    file.write_bytes(content)
    try:
        yield
    finally:
        file.write_bytes(original)
