"""Directory ids that mean something else than a directory (KIP-858), and which directories are online. PURE."""

from collections.abc import Collection
from uuid import UUID

from quorum_node.records.metadata import LOST, MIGRATING, UNASSIGNED

_NOWHERE_YET = (MIGRATING.int, UNASSIGNED.int)


def is_online(directory: UUID, registered: Collection[UUID]) -> bool:
    """Whether a replica in this directory of a broker can be used.

    A broker that registered no directories is trusted: it registered under a metadata version without them.
    """
    number = directory.int  # comparing UUIDs takes longer than all the rest
    if number in _NOWHERE_YET:
        return True
    return number != LOST.int and (not registered or directory in registered)


def default_directory(registered: Collection[UUID]) -> UUID:
    """Where a new replica of a broker with these directories goes."""
    if not registered:
        return MIGRATING
    return next(iter(registered)) if len(registered) == 1 else UNASSIGNED


def is_reserved(directory: UUID) -> bool:
    """Whether an id can't be that of a directory (the first hundred mean something else, or will)."""
    return directory.int < 100
