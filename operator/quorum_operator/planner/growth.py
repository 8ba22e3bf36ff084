"""Whether a member's volume can be expanded to the wanted size. Pure."""

from quorum_operator.planner.observed import Incarnation, StorageChoice
from quorum_operator.quantity import value_of


def grows_to(each: Incarnation, wanted: StorageChoice) -> bool:
    """Whether the class allows expansion and only the size grows."""
    claim = each.claim
    return (
        claim is not None and claim.expandable and not claim.deleting and wants_more(each, wanted)
    )


def wants_more(each: Incarnation, wanted: StorageChoice) -> bool:
    """Whether a larger size of the same class is wanted."""
    have, wanted_size = value_of(each.storage.size), value_of(wanted.size)
    same = each.storage.storage_class == wanted.storage_class
    return same and have is not None and wanted_size is not None and wanted_size > have
