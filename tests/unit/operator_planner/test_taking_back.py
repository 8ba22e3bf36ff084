"""A circumstance that turns out wrong before the member was replaced: the replica votes on, on its own volume."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.observed import Key, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import LatchFailure, Nothing, Step, Unlatch, Wait
from support.modelled_pods import Set
from support.quorum_model import STORAGE, Model

pytestmark = pytest.mark.requirement("OP-04")
SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def reconcile(model: Model) -> Step:
    step = plan(model.observe())
    model.apply(step)
    model.tick(max(step.retry_after_s, 0.2) if isinstance(step, Wait) else 0.2)
    return step


def formed(seed: int, replicas: int = 3) -> Model:
    model = Model(random.Random(seed), Wanted(replicas, STORAGE, debounce_s=2.0))
    model.wanted = replace(model.wanted, max_replacements_per_hour=60)
    settle(model)
    return model


def settle(model: Model) -> None:
    for _ in range(600):
        well = len(model.live()) == len(model.current_voters()) == model.wanted.replicas
        if isinstance(reconcile(model), Nothing) and well:
            return
    raise AssertionError([str(each) for each in model.steps[-10:]])


def latched(model: Model, state: str, of_leader: bool) -> Set:
    key = next(each for each in model.live() if (each == model.leader) == of_leader)
    victim = model.set_of(key)
    assert victim is not None
    model.fail_disk(victim, state)
    for _ in range(100):
        if isinstance(reconcile(model), LatchFailure):
            return victim
    raise AssertionError("not latched")


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    replicas=st.sampled_from([3, 5]),
    later=st.integers(0, 25),
    of_leader=st.booleans(),
)
def test_host_that_returns_before_the_replacement_keeps_its_voter(
    seed: int, replicas: int, later: int, of_leader: bool
) -> None:
    model = formed(seed, replicas)
    victim = latched(model, "host-gone", of_leader)
    key = Key(victim.node_id, victim.disk.uuid or "")
    for _ in range(later):
        reconcile(model)
    twins = [each for each in model.current_voters() if each.id == victim.node_id]
    victim.disk.state = "ok"
    settle(model)
    assert (key in model.current_voters()) == (twins == [key])
    assert (victim.failed is None) == (twins == [key])
    unlatched = [each for each in model.steps if isinstance(each, Unlatch)]
    assert len(unlatched) == (twins == [key])
    if unlatched:
        assert len(model.sets) == replicas, "the replacement was not removed"


@SETTINGS
@given(seed=st.integers(0, 2**32), later=st.integers(0, 25), of_leader=st.booleans())
def test_conclusive_failure_is_never_revoked(seed: int, later: int, of_leader: bool) -> None:
    """Also where the disk looks healthy again at once."""
    model = formed(seed)
    victim = latched(model, "failed", of_leader)
    for _ in range(later):
        reconcile(model)
    victim.disk.state, victim.disk.healed = "ok", True
    settle(model)
    assert victim.failed is not None
    assert victim.replicas == 0
    assert not [each for each in model.steps if isinstance(each, Unlatch)]


@SETTINGS
@given(seed=st.integers(0, 2**32), stops=st.integers(1, 6))
def test_flapping_host_uses_up_the_hourly_limit(seed: int, stops: int) -> None:
    model = formed(seed)
    model.wanted = replace(model.wanted, max_replacements_per_hour=3)
    victim = latched(model, "host-gone", of_leader=False)
    for _ in range(stops):
        victim.disk.state = "ok"
        settle(model)
        assert victim.failed is None
        model.fail_disk(victim, "host-gone")
        if not any(isinstance(reconcile(model), LatchFailure) for _ in range(80)):
            break
    made = [each for each in model.steps if isinstance(each, LatchFailure)]
    assert len(made) == min(stops + 1, 3)
