"""The number of replicas that a partition must have had before a span, for its records about directories. PURE.

The number of directories has to equal that of replicas. If the other number was set before the span, only the first
required number is kept, and the offset at which a different one is first required: one of the two is wrong.
"""

from typing import NamedTuple


class Lengths(NamedTuple):
    """`first`: the number required at offset `at`. `other_at`: the offset at which another number was required, if any."""

    first: int
    at: int
    other_at: int | None = None

    def violated_at(self, count: int) -> int | None:
        """Return the offset of the first record that contradicts `count`; None if none does."""
        return self.at if count != self.first else self.other_at


def joined(earlier: Lengths | None, later: Lengths | None) -> Lengths | None:
    """Combine the requirements of both."""
    if earlier is None or later is None:
        return earlier or later
    if earlier.other_at is not None:
        return earlier
    return earlier._replace(other_at=later.violated_at(earlier.first))


def reported_at(lengths: Lengths | None, offset: int) -> Lengths | None:
    """Return the requirement as that of one record at `offset`."""
    if lengths is None:
        return None
    return Lengths(lengths.first, offset, None if lengths.other_at is None else offset)
