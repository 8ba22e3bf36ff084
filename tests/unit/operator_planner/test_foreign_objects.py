"""ForeignObjects and ClaimsInDoubt never ask for opposite decisions about the same object."""

from dataclasses import replace
from itertools import chain, combinations

import pytest

from quorum_operator.planner.claim_decisions import plan_adoption
from quorum_operator.planner.object_facts import ForeignObject
from quorum_operator.planner.observed import Identity, Observation
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import AdoptObject, Nothing
from quorum_operator.status_crd import Condition, MetadataQuorumStatus
from support.observed_quorum import observation_of

SET = ForeignObject("StatefulSet", "q-1-1", "", "s1", "7", "c1")
IDENTITY = ForeignObject("ConfigMap", "q-identity", "", "i1", "8", "c1")
TAKEN = ForeignObject("StatefulSet", "q-2-1", "ConfigMap/x", "s2", "7", "c1", given_away=True)
OTHERS = ForeignObject("StatefulSet", "q-3-1", "MetadataQuorum/p", "s3", "7", "c1")
UNKNOWN = ForeignObject("StatefulSet", "q-4-1", "Deployment/d", "s4", "7", given_away=True)
POD = ForeignObject("Pod", "q-9-1-0", "", "p9", "7")
EVERY = (SET, IDENTITY, TAKEN, OTHERS, UNKNOWN, POD)


def seen_with(*found: ForeignObject, **wanted: object) -> Observation:
    seen = observation_of([], size=3, identities=(), foreign_objects=found)
    return replace(seen, wanted=replace(seen.wanted, **wanted))  # type: ignore[arg-type]


def condition(seen: Observation, kind: str = "ForeignObjects") -> Condition:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    return next(each for each in status.conditions if each.type == kind)


def to_delete(seen: Observation) -> str:
    """The part of the message that asks to delete something."""
    message = condition(seen).message
    return message[message.index("not part of this quorum") :] if "elete or" in message else ""


def test_objects_of_an_earlier_resource_wait_for_the_same_decision_in_both() -> None:
    seen = seen_with(SET, IDENTITY)
    found = condition(seen)
    assert (found.status, found.reason) == ("True", "EarlierResource")
    assert "spec.earlierClaims" in found.message
    assert "StatefulSet/q-1-1" in found.message
    assert not to_delete(seen)
    assert "clusterId: c1" in condition(seen, "ClaimsInDoubt").message


def test_both_kinds_are_named_apart() -> None:
    seen = seen_with(SET, IDENTITY, UNKNOWN, POD)
    found = condition(seen)
    assert found.reason == "NamesTaken"
    assert "spec.earlierClaims" in found.message
    assert "StatefulSet/q-4-1 (Deployment/d)" in to_delete(seen)
    assert "Pod/q-9-1-0 (without an owner)" in to_delete(seen)
    assert "q-1-1" not in to_delete(seen)


@pytest.mark.parametrize("paused", [True, False])
def test_object_that_is_adopted_next_is_not_to_be_deleted(paused: bool) -> None:
    seen = seen_with(SET, IDENTITY, adopt="c1", paused=paused)
    assert isinstance(plan(seen), Nothing if paused else AdoptObject)
    assert condition(seen).status == "False"


def test_sets_of_the_known_cluster_are_not_to_be_deleted() -> None:
    known = replace(seen_with(SET, UNKNOWN), identities=(Identity(1, "c1", 1, "u1", 3, True),))
    assert isinstance(plan(known), AdoptObject)
    assert "q-4-1" in to_delete(known)
    assert "q-1-1" not in to_delete(known)


def test_after_the_decision_to_leave_them_sets_may_be_deleted() -> None:
    assert "StatefulSet/q-1-1" in to_delete(seen_with(SET, leave_claims=True))


@pytest.mark.parametrize("adopt", [None, "c1", "c2"])
def test_nothing_that_a_decision_would_adopt_is_to_be_deleted(adopt: str | None) -> None:
    """For all combinations of objects."""
    some = chain.from_iterable(combinations(EVERY, n) for n in range(1, len(EVERY) + 1))
    for found in some:
        seen = seen_with(*found, adopt=adopt)
        decided = seen_with(*found, adopt="c1")
        for each in found:
            alone = replace(decided, foreign_objects=(each,))
            if plan_adoption(Situation(alone)) is not None:
                assert each.name not in to_delete(seen), (found, adopt)
