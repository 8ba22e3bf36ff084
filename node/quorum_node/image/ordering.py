"""Sorting in small steps, as the interpreter is shared with the event loop.

Owns the order only. Must not know records.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar

_SORTED_AT_ONCE = 512


class Sortable(Protocol):
    """A type with an order."""

    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Sortable)


def sorted_lazily(keys: Iterable[Key]) -> Iterator[Key]:
    """Sort lazily: sorting a million keys at once would block all other threads for a second."""
    return (key for key in sorted_with_pauses(keys) if key is not None)


def sorted_with_pauses(keys: Iterable[Key]) -> Iterator[Key | None]:
    """Yields None now and then while many keys are being sorted: a pause for other work."""
    every = iter(keys)
    runs: list[list[Key]] = []
    while run := sorted(islice(every, _SORTED_AT_ONCE)):
        runs.append(run)
        if len(run) == _SORTED_AT_ONCE:
            yield None
    yield from runs[0] if len(runs) == 1 else merge(*runs)
