"""Exponential backoff: how long to wait before the next attempt.

Owns the arithmetic. The jitter spreads the attempts of many resources that failed at the same moment.
"""

import random

JITTER = 0.2
"""Share of a delay by which it may be longer or shorter."""

_MOST_DOUBLINGS = 30


def delay_s(
    times: int, first_s: float, most_s: float, chance: random.Random | None = None
) -> float:
    """Seconds to wait after the `times`-th attempt in a row, counted from 1; never more than `most_s`.

    `chance` draws the jitter; the process's own source without it.
    """
    doublings = min(max(times, 1) - 1, _MOST_DOUBLINGS)
    exact = min(first_s * 2.0**doublings, most_s)
    factor = (chance or random).uniform(1 - JITTER, 1 + JITTER)
    return min(exact * factor, most_s)
