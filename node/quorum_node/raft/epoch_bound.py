"""Bounds on how far a message may raise the epoch, so that epochs are never exhausted.

Owns the bounds and the arithmetic. Must not know messages or their senders.
Source: rule of this project; KIP-595 has none. An epoch is an int32 and never decreases, so a
single message with the largest value would prevent all further elections of a quorum.

* A request raises the epoch by at most MAX_STEP, as any sender may send it. `--recover` raises it
by 65,536, and an old voter has to be able to follow.
* A larger step is accepted only from a response to an own request, as this replica chose that
address, and only up to MAX_LEAP_EPOCH. Above that a response raises the epoch by at most MAX_STEP
as well: a false response can't exhaust the epochs.
* No epoch above MAX_EPOCH is accepted or begun. This leaves room for `--recover` and for the wire
format.
"""

MAX_STEP = 1 << 17
"""More than the 65,536 epochs of `--recover`."""
MAX_LEAP_EPOCH = 1 << 30
MAX_EPOCH = 3 << 29
"""The last epoch. A replica in this epoch starts no election, and a data directory with a higher
one is not opened.
"""


def within_step(known: int, told: int) -> bool:
    """Whether a request with epoch `told` may raise the epoch `known`."""
    return told - known <= MAX_STEP and told <= MAX_EPOCH


def learned(known: int, told: int) -> int:
    """The epoch to take after a response with epoch `told`: that one, or as far as one step allows.

    `known` if nothing may be taken. Further responses bring the rest.
    """
    if told > MAX_EPOCH:
        return known
    return max(known, min(told, max(known + MAX_STEP, MAX_LEAP_EPOCH)))
