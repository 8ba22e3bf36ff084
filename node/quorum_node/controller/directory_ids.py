"""Directory ids that mean something else than a directory (KIP-858), and which directories are online. PURE."""

from collections.abc import Collection
from uuid import UUID

MIGRATING = UUID(int=0)
"""Nobody said yet where the replica is: the broker registered before directories had ids."""
UNASSIGNED = UUID(int=1)
"""The broker chooses."""
LOST = UUID(int=2)
"""In a directory that failed."""


def is_online(directory: UUID, registered: Collection[UUID]) -> bool:
    """Whether a replica in this directory of a broker can be used.

    A broker that registered no directories is trusted: it registered under a metadata version without them.
    """
    if directory in (MIGRATING, UNASSIGNED):
        return True
    return directory != LOST and (not registered or directory in registered)


def default_directory(registered: Collection[UUID]) -> UUID:
    """Where a new replica of a broker with these directories goes."""
    if not registered:
        return MIGRATING
    return next(iter(registered)) if len(registered) == 1 else UNASSIGNED
