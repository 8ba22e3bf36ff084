"""A recovery from one survivor: only what was confirmed, only alone, and from there to the wanted voters."""

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.observed import Confirmation, Key
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing, Step
from quorum_operator.status_crd import MetadataQuorumStatus, Phase
from support import recovery_model
from support.model_rules import majority
from support.modelled_pods import Set
from support.recovery_model import RecoveryModel, voters

pytestmark = pytest.mark.requirement("OP-07")

SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
ORDER = ("ScaleToZero", "UpdateMember", "RestartMember", "RecordReplicaUuid", "LatchFailure")
LOSSES = ("failed", "host-gone", "mount-fails")


def status_of(model: RecoveryModel, step: Step | None = None) -> MetadataQuorumStatus:
    return build_status(model.observe(), step or Nothing(""), MetadataQuorumStatus(), "")


def offer_of(model: RecoveryModel) -> Confirmation | None:
    """As a person takes it from the status."""
    loss = status_of(model).quorum_loss
    if loss is None or loss.offer is None:
        return None
    return Confirmation(loss.offer.id, loss.offer.uuid, loss.offer.epoch, loss.offer.end_offset)


def reconcile(model: RecoveryModel, times: int = 1) -> None:
    """Every tenth step is lost half way."""
    for _ in range(times):
        model.tick(0.5)
        seen = model.observe()
        step = plan(seen)
        if [step] != model.steps[-1:]:  # most observations repeat the previous one
            build_status(seen, step, MetadataQuorumStatus(), "")
        if model.rng.random() < 0.9:
            model.apply(step)


formed = partial(recovery_model.formed, reconcile=reconcile)
settle = partial(recovery_model.settle, reconcile=reconcile)


def lose_majority(model: RecoveryModel, draw: random.Random, state: str | None = None) -> list[Set]:
    """One after the other, so that the last ones to go have more in their logs."""
    everyone = voters(model)
    draw.shuffle(everyone)
    lost = everyone[: majority(len(everyone))]
    for each in lost:
        model.fail_disk(each, state or draw.choice(LOSSES))
        model.tick(0.5)
    return lost


def wait_for_offer(model: RecoveryModel) -> Confirmation:
    for _ in range(60):
        offer = offer_of(model)
        if offer is not None:
            return offer
        reconcile(model)
    raise AssertionError(status_of(model).quorum_loss)


def confirm(model: RecoveryModel, reported: Confirmation | None) -> None:
    model.wanted = replace(model.wanted, recovery=reported)


@SETTINGS
@given(seed=st.integers(0, 2**32), replicas=st.sampled_from([3, 5]))
def test_confirmed_survivor_becomes_a_quorum_of_the_specified_size_without_old_voters(
    seed: int, replicas: int
) -> None:
    model, draw = formed(seed, replicas), random.Random(seed)
    old_keys, old_sets = set(model.current_voters()), set(model.sets)
    lose_majority(model, draw)
    offer = wait_for_offer(model)
    survivor = model.set_of(Key(offer.id, offer.uuid))
    assert survivor is not None
    assert offer.end_offset == max(
        model.held[each.name] for each in voters(model) if model.runs(each)
    )
    confirm(model, offer)
    settle(model)
    assert model.recovered == 1
    assert old_keys.isdisjoint(model.current_voters()), "no key of the old quorum is in the new one"
    assert old_sets <= model.sets.keys(), "volumes are kept"
    for name in old_sets - {survivor.name}:
        assert model.sets[name].failed is not None
        assert model.sets[name].replicas == 0
    assert status_of(model).phase is Phase.READY
    confirm(model, None)
    reconcile(model, 5)
    assert model.recovered == 1


@SETTINGS
@given(seed=st.integers(0, 2**32))
def test_invalid_or_repeated_confirmation_has_no_effect(seed: int) -> None:
    model, draw = formed(seed, 3), random.Random(seed)
    lose_majority(model, draw)
    offer = wait_for_offer(model)
    for wrong in (
        offer._replace(end_offset=offer.end_offset - 1),
        offer._replace(epoch=offer.epoch + 1),
        offer._replace(id=offer.id % 3 + 1),
        offer._replace(uuid=next(k.uuid for k in model.current_voters() if k.uuid != offer.uuid)),
    ):
        confirm(model, wrong)
        names = {each.name: each.replicas for each in model.sets.values()}
        reconcile(model, 5)
        assert {each.name: each.replicas for each in model.sets.values()} == names
        loss = status_of(model).quorum_loss
        assert loss is not None
        assert "has no effect" in loss.message
    confirm(model, offer)
    settle(model)
    lose_majority(model, draw)
    wait_for_offer(model)
    reconcile(model, 10)
    assert model.recovered == 1, "the old confirmation names no replica any more"


@SETTINGS
@given(seed=st.integers(0, 2**32), at=st.integers(0, 12), withdrawn=st.booleans())
def test_majority_that_returns_during_a_recovery_is_never_split(
    seed: int, at: int, withdrawn: bool
) -> None:
    """Volumes return, or the confirmation is removed, at any moment of a recovery."""
    model, draw = formed(seed, 3), random.Random(seed)
    lost = lose_majority(model, draw, "mount-fails")
    confirm(model, wait_for_offer(model))
    reconcile(model, at)
    for each in lost:
        each.disk.state = "ok"
    if withdrawn:
        confirm(model, None)
    keys = set(model.current_voters())
    settle(model)
    if not model.recovered:
        assert keys & set(model.current_voters()), "the old quorum has gone on"


def test_recovery_is_not_offered_while_unreachable_pods_are_ready() -> None:
    model = formed(1, 3)
    seen = model.observe()
    cut_off = tuple(
        each if each.node_id == 1 else replace(each, report=None) for each in seen.incarnations
    )
    seen = replace(seen, view=None, unconfirmed_since=model.now - 60, incarnations=cut_off)
    loss = build_status(seen, plan(seen), MetadataQuorumStatus(), "").quorum_loss
    assert loss is not None
    assert loss.offer is None
    assert "3 of 3 voters run" in (loss.no_offer or "")


def test_phase_and_plan_name_the_pods_that_must_stop_first() -> None:
    model = formed(2, 3)
    lose_majority(model, random.Random(2), "mount-fails")
    confirm(model, wait_for_offer(model))
    reported = set()
    for _ in range(80):
        step = plan(model.observe())
        reported.add(status_of(model, step).phase)
        model.apply(step)
        model.tick(0.5)
    assert Phase.RECOVERING in reported
    names = [type(each).__name__ for each in model.steps]
    begun = names.index("BeginRecovery")
    order = [names.index(each, begun) for each in ORDER]
    assert order == sorted(order)
