"""How many replicas a partition must have had before a span for what the span says of directories. PURE.

A record may tell directories, whose number has to be that of the replicas; or replicas, whose number has to be that of
the directories. Where the other number was told before the span, all that lasts is the first number that was asked for,
and where first another one was: one of the two is wrong.
"""

from typing import NamedTuple


class Lengths(NamedTuple):
    """`first`: the number asked for at offset `at`; `other_at`: the offset at which another one was asked for, if any."""

    first: int
    at: int
    other_at: int | None = None

    def violated_at(self, count: int) -> int | None:
        """The offset of the first record that is wrong if there were `count`."""
        return self.at if count != self.first else self.other_at


def joined(earlier: Lengths | None, later: Lengths | None) -> Lengths | None:
    """What both ask for."""
    if earlier is None or later is None:
        return earlier or later
    if earlier.other_at is not None:
        return earlier
    return earlier._replace(other_at=later.violated_at(earlier.first))


def told_at(lengths: Lengths | None, offset: int) -> Lengths | None:
    """The same as if one record at `offset` had said it."""
    if lengths is None:
        return None
    return Lengths(lengths.first, offset, None if lengths.other_at is None else offset)
