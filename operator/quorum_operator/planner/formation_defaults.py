"""Names of the defaults that a quorum keeps from its formation. Pure.

A default of a later version takes effect for new quorums only, so an upgrade of the operator restarts nobody.
"""

from collections.abc import Iterable
from enum import StrEnum


class FormationDefault(StrEnum):
    """What applies if the spec does not set it."""

    RESOURCES = "resources"
    """Requests of CPU and memory."""
    ZONES = "zones"
    """Members are spread over zones: all Nodes had the zone label at the formation."""
    NO_MEMBERSHIP = "membership-off"
    """Voters can't be changed through the Kafka port."""


Defaults = frozenset[FormationDefault]


def defaults_text(defaults: Iterable[FormationDefault]) -> str:
    """The defaults as the text of an annotation."""
    return ",".join(sorted(defaults))


def defaults_in(text: str | None) -> Defaults:
    """The inverse of `defaults_text`. Names that this version does not know are ignored."""
    known = list(FormationDefault)
    return frozenset(FormationDefault(each) for each in (text or "").split(",") if each in known)
