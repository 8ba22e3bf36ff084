"""Reserved directory ids (KIP-858), and which directories are online. PURE."""

from collections.abc import Collection
from uuid import UUID

from quorum_node.records.metadata import LOST, MIGRATING, UNASSIGNED

_NOWHERE_YET = (MIGRATING.int, UNASSIGNED.int)


def is_online(directory: UUID, registered: Collection[UUID]) -> bool:
    """Whether a replica in this directory of a broker can be used.

    A broker without registered directories counts as online: it registered under a metadata version
    that lacks them.
    """
    number = directory.int  # identity first, as comparing UUIDs is the most expensive part
    if number in _NOWHERE_YET:
        return True
    return number != LOST.int and (not registered or directory in registered)


def default_directory(registered: Collection[UUID]) -> UUID:
    """Directory of a new replica on a broker with these directories."""
    if not registered:
        return MIGRATING
    return next(iter(registered)) if len(registered) == 1 else UNASSIGNED


def is_reserved(directory: UUID) -> bool:
    """Whether an id is reserved (the first hundred ids are)."""
    return directory.int < 100
