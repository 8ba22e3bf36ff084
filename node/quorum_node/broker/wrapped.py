"""Sums of 64-bit integers that wrap around. PURE.

The base timestamp of a batch and the timestamp deltas of its records are chosen by the producer. Every reader in Java adds them without a
check, so their sum wraps around.
"""

_END = 1 << 63


def wrapped(value: int) -> int:
    """The 64-bit integer with the same lowest 64 bits."""
    if -_END <= value < _END:
        return value
    return (value + _END) % (2 * _END) - _END
