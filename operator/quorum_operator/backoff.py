"""Exponential backoff: the delay before the next attempt.

Owns the arithmetic. Jitter spreads the attempts of many resources that failed at the same moment.
"""

import random

JITTER = 0.2
"""Fraction by which jitter may lengthen or shorten a delay."""

_MOST_DOUBLINGS = 30


def delay_s(times: int, first_s: float, most_s: float, rng: random.Random | None = None) -> float:
    """Seconds to wait after the `times`-th attempt in a row, counted from 1; at most `most_s`.

    `rng`: the source of the random number for the jitter (default: the process's own).
    """
    doublings = min(max(times, 1) - 1, _MOST_DOUBLINGS)
    exact = min(first_s * 2.0**doublings, most_s)
    factor = (rng or random).uniform(1 - JITTER, 1 + JITTER)
    return min(exact * factor, most_s)
