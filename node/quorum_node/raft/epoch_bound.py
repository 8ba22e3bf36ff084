"""How far an epoch may be raised by what others say, so that there is always a next one.

Owns the bounds and the arithmetic. Must not know messages or who sent them.
Source: the project's rule; KIP-595 has none. An epoch is an int32 and never goes back, so one message that
carries the largest would end all elections of a quorum for good.

* A request raises a known epoch by at most MAX_STEP. It may come from anybody. `--recover` goes 65,536 epochs
  ahead, and an old voter has to be able to follow.
* A larger step is learned only from the answer to a request of one's own, as it comes from an address that this
  replica chose, and only up to MAX_LEAP_EPOCH. From there on an answer raises the epoch by at most MAX_STEP, too:
  one false answer leaves as many epochs as it took.
* No epoch above MAX_EPOCH is taken or begun. `--recover` and the wire have room behind it.
"""

MAX_STEP = 1 << 17
"""More than the 65,536 epochs of `--recover`."""
MAX_LEAP_EPOCH = 1 << 30
MAX_EPOCH = 3 << 29
"""The last epoch: a replica that has it never campaigns again, and a directory that has it is not opened."""


def within_step(known: int, told: int) -> bool:
    """Whether a request may raise the epoch `known` to `told`."""
    return told - known <= MAX_STEP and told <= MAX_EPOCH


def learned(known: int, told: int) -> int:
    """The epoch to take when an answer tells of `told`: that one, or as far as is allowed at once.

    `known` where nothing may be learned. An answer that follows brings the rest.
    """
    if told > MAX_EPOCH:
        return known
    return max(known, min(told, max(known + MAX_STEP, MAX_LEAP_EPOCH)))
