"""The fields of a quorum's status that one reconcile leaves for the next, for the planner's model."""

from quorum_operator.planner.object_facts import Suspicion
from quorum_operator.planner.observed import Observation
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.suspicion import suspicion_of


def suspicions(seen: Observation) -> dict[str, Suspicion]:
    """Incarnation name → the suspicion, and since when."""
    at = Situation(seen)
    found = {each.name: suspicion_of(at, each) for each in at.current}
    return {name: each for name, each in found.items() if each is not None}
