"""Work that is done in pieces, each of which is short. PURE.

A step can't be measured before it is done, so a piece may take one step longer than it should.
"""

from collections.abc import Callable, Iterator
from time import perf_counter


def is_done(
    work: Iterator[object], seconds: float, clock: Callable[[], float] = perf_counter
) -> bool:
    """Do one piece of `work`, of about this many seconds; whether it was the last one. `clock`: in seconds."""
    ends_at = clock() + seconds
    return all(clock() <= ends_at for _ in work)
