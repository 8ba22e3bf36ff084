"""A contradiction in a log, or a record that can't be decoded. PURE."""

from typing import NamedTuple


class Contradiction(NamedTuple):
    """The record at `offset` contradicts earlier records."""

    offset: int
    reason: str


def first_of(*found: Contradiction | None) -> Contradiction | None:
    """Return the one with the lowest offset, which replay reaches first."""
    return min((each for each in found if each is not None), default=None)
