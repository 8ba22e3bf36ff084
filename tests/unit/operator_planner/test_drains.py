"""A drain never costs the majority, and no budget forbids it for ever: by what the API server counts."""

import random
from dataclasses import replace
from itertools import combinations

import pytest

from quorum_operator.planner.drains import least_ready
from quorum_operator.planner.observed import Observation, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import CreateMember, GuardDrains, Nothing, RemoveVoter
from support.model_rules import majority
from support.quorum_model import STORAGE, Model


@pytest.mark.parametrize("voters", range(2, 8))
@pytest.mark.parametrize("others", range(3))
def test_majority_of_the_voters_stays_for_every_order_of_evictions(
    voters: int, others: int
) -> None:
    """The API server lets pods go while more than the floor are ready; observers are ready like voters."""
    floor = least_ready(voters, 3, others)
    for ready_voters in range(majority(voters), voters + 1):
        pods = ["voter"] * ready_voters + ["other"] * others
        for count in range(max(len(pods) - floor, 0) + 1):
            for evicted in set(combinations(pods, count)):
                assert ready_voters - evicted.count("voter") >= majority(voters)


@pytest.mark.parametrize("voters", range(1, 8))
def test_healthy_quorum_allows_the_eviction_of_one_member(voters: int) -> None:
    assert voters - least_ready(voters, voters) >= 1


def test_one_of_five_members_may_be_evicted_while_another_is_unavailable() -> None:
    assert 4 - least_ready(5, 5) == 1


def settled(replicas: int = 3) -> Model:
    model = Model(random.Random(1), Wanted(replicas, STORAGE))
    for _ in range(400):
        model.tick(0.5)
        step = plan(model.observe())
        model.apply(step)
        if isinstance(step, Nothing) and len(model.live()) == replicas:
            return model
    raise AssertionError("the quorum does not settle")


def with_floor(seen: Observation, floor: int | None) -> Observation:
    return replace(seen, drain_floor=floor)


@pytest.mark.parametrize(("replicas", "floor"), [(1, 0), (3, 2), (5, 3)])
def test_disruption_budget_is_updated_to_the_voters(replicas: int, floor: int) -> None:
    seen = settled(replicas).observe()
    assert isinstance(plan(with_floor(seen, floor)), Nothing)
    for other in (floor + 1, floor + 7):
        step = plan(with_floor(seen, other))
        assert isinstance(step, GuardDrains)
        assert step.least_ready == floor
    assert isinstance(plan(with_floor(seen, None)), Nothing), "it is not known"
    paused = replace(seen, wanted=replace(seen.wanted, paused=True))
    assert isinstance(plan(with_floor(paused, 9)), Nothing)


def test_replacement_of_a_dead_voter_does_not_count_as_voter_in_the_budget() -> None:
    """Two live voters and a caught-up observer are three ready pods, of which none may be evicted."""
    model = settled()
    victim = next(e for e in model.sets.values() if (e.node_id, e.disk.uuid) != model.leader)
    model.fail_disk(victim, "failed")
    guarded, floor = False, 2
    for _ in range(400):
        model.tick(0.5)
        seen = with_floor(model.observe(), floor)
        step = plan(seen)
        if isinstance(step, GuardDrains):
            floor = step.least_ready
            guarded = True
            continue
        running = [e for e in seen.incarnations if e.pod is not None and e.pod.ready]
        if seen.view is not None and model.has_quorum():
            voters = {each.key for each in seen.view.voters}
            others = sum(1 for each in running if each.key not in voters)
            live = sum(1 for each in running if each.key in voters)
            evictable = max(live + others - floor, 0)
            assert live - evictable >= majority(len(voters)) or live < majority(len(voters))
        model.apply(step)
        if isinstance(step, Nothing) and len(model.live()) == 3 and guarded:
            break
    assert guarded
    assert floor == 2, "and back"
    assert any(isinstance(each, CreateMember) for each in model.steps)
    assert any(isinstance(each, RemoveVoter) for each in model.steps)
