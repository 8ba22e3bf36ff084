"""Sorting that never works long at a time, for it shares its interpreter with the loop that answers clients.

Owns nothing but the order. Knows no records.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, Protocol, TypeVar

_SORTED_AT_ONCE = 512


class Sortable(Protocol):
    """What has an order."""

    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Sortable)


def sorted_lazily(keys: Iterable[Key]) -> Iterator[Key]:
    """Sorting a million keys at once would hold up every other thread for a second."""
    return (key for key in sorted_with_pauses(keys) if key is not None)


def sorted_with_pauses(keys: Iterable[Key]) -> Iterator[Key | None]:
    """None while many keys are being sorted, now and then: a moment at which others may have their turn."""
    every = iter(keys)
    runs: list[list[Key]] = []
    while run := sorted(islice(every, _SORTED_AT_ONCE)):
        runs.append(run)
        if len(run) == _SORTED_AT_ONCE:
            yield None
    yield from runs[0] if len(runs) == 1 else merge(*runs)
