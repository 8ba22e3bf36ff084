"""A contradiction in a log, or a record that can't be decoded. PURE."""

from typing import NamedTuple


class Contradiction(NamedTuple):
    """The record at `offset` can't follow what came before it."""

    offset: int
    reason: str


def first_of(*found: Contradiction | None) -> Contradiction | None:
    """The one that replay meets first."""
    return min((each for each in found if each is not None), default=None)
