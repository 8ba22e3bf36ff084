"""The number of replicas that a partition must have had before a span, for its records about directories. PURE.

The number of directories has to equal that of replicas. If the other number was set before the span, only the first
required number is kept, and where a different one is first required: one of the two is wrong.
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
