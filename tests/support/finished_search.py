"""Runs work that is done in pieces to its end."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def finished(work: Generator[None, None, T]) -> T:
    """Its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def pieces_of(work: Generator[None, None, object]) -> int:
    """Number of pieces after which it was interrupted."""
    return sum(1 for _ in work)
