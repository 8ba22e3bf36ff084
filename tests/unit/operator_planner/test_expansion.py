"""Larger volumes: claims are expanded where their class allows it, without restarts; else members move, which is announced first."""

import random
from dataclasses import replace

import pytest

from quorum_operator.planner.conditions import STORAGE_CHANGING
from quorum_operator.planner.observed import Incarnation, Observation, StorageChoice, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import ExpandVolume, Nothing
from quorum_operator.status_crd import Condition, MetadataQuorumStatus
from support.quorum_model import STORAGE, Model

LARGER = StorageChoice("500Gi", STORAGE.storage_class)


@pytest.fixture(scope="module")
def settled() -> Observation:
    model = Model(random.Random(1), Wanted(3, STORAGE))
    for _ in range(300):
        model.tick(0.5)
        step = plan(model.observe())
        model.apply(step)
        if isinstance(step, Nothing) and len(model.live()) == 3:
            return model.observe()
    raise AssertionError("the quorum does not settle")


def wanting(seen: Observation, storage: StorageChoice, *, expandable: bool) -> Observation:
    def with_expandable(each: Incarnation) -> Incarnation:
        assert each.claim is not None
        return replace(each, claim=replace(each.claim, expandable=expandable))

    members = tuple(map(with_expandable, seen.incarnations))
    return replace(seen, incarnations=members, wanted=replace(seen.wanted, storage=storage))


def condition(seen: Observation) -> Condition:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    return next(each for each in status.conditions if each.type == STORAGE_CHANGING)


def reason(seen: Observation) -> str:
    return condition(seen).reason


def message(seen: Observation) -> str:
    return condition(seen).message


def test_each_claim_is_expanded_once_and_no_member_is_replaced(settled: Observation) -> None:
    seen = wanting(settled, LARGER, expandable=True)
    assert reason(seen) == "Expanding"
    grown = set()
    for _ in range(3):
        step = plan(seen)
        assert isinstance(step, ExpandVolume)
        assert step.storage == LARGER
        assert not Situation(seen).leaving
        grown.add(step.claim)
        members = tuple(
            replace(each, storage=LARGER) if each.name == step.target.name else each
            for each in seen.incarnations
        )
        seen = replace(seen, incarnations=members)
    assert len(grown) == 3
    assert isinstance(plan(seen), Nothing)
    assert reason(seen) == "AsWanted"


def test_claims_are_expanded_without_a_confirmed_leader(settled: Observation) -> None:
    """A full disk may be why."""
    seen = replace(wanting(settled, LARGER, expandable=True), view=None)
    assert isinstance(plan(seen), ExpandVolume)


@pytest.mark.parametrize(
    ("storage", "expandable"),
    [
        (LARGER, False),
        (StorageChoice("65Mi", STORAGE.storage_class), True),
        (StorageChoice("500Gi", "another"), True),
    ],
    ids=["the class does not", "less", "another class"],
)
def test_replacement_for_storage_that_cannot_expand_is_announced_before_it_starts(
    settled: Observation, storage: StorageChoice, expandable: bool
) -> None:
    seen = wanting(settled, storage, expandable=expandable)
    paused = replace(seen, wanted=replace(seen.wanted, paused=True))
    assert isinstance(plan(paused), Nothing)
    assert reason(paused) == reason(seen) == "Replacing"
    assert not isinstance(plan(seen), ExpandVolume)
    assert len(Situation(seen).leaving) == 3


def test_paused_quorum_expands_no_claim(settled: Observation) -> None:
    seen = wanting(settled, LARGER, expandable=True)
    paused = replace(seen, wanted=replace(seen.wanted, paused=True))
    assert isinstance(plan(paused), Nothing)
    assert reason(paused) == "Expanding"


def test_expansion_is_reported_until_every_volume_has_the_requested_size(
    settled: Observation,
) -> None:
    first, *others = settled.incarnations
    assert first.claim is not None
    pending = "has 64Mi, Resizing: the driver refused"
    growing = replace(first, claim=replace(first.claim, expansion=pending))
    seen = replace(settled, incarnations=(growing, *others))
    assert reason(settled) == "AsWanted"
    assert reason(seen) == "Expanding"
    assert f"{first.name} {pending}" in message(seen)
    assert isinstance(plan(seen), Nothing)
