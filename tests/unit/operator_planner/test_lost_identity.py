"""An identity that is deleted, or loses its annotation, is recreated unchanged; no quorum is ever formed twice."""

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.conditions import IDENTITY_MISSING
from quorum_operator.planner.observed import Key, Observation, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import (
    CreateIdentity,
    CreateMember,
    RebuildIdentity,
    RecordFormed,
    Wait,
)
from quorum_operator.status_crd import MetadataQuorumStatus
from support import recovery_model
from support.modelled_claims import delete_set, keep_marks
from support.modelled_identity import delete_identity, strip_identity
from support.quorum_model import STORAGE
from support.recovery_model import RecoveryModel

pytestmark = pytest.mark.requirement("OP-07")

SETTINGS = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
LIMIT = 400


def fresh(seed: int, replicas: int) -> RecoveryModel:
    wanted = Wanted(replicas, STORAGE, debounce_s=5.0, max_replacements_per_hour=60)
    return RecoveryModel(random.Random(seed), wanted)


def reconcile(model: RecoveryModel, times: int = 1) -> None:
    """One step in ten is lost. The model rejects a second founder and another identity."""
    for _ in range(times):
        model.tick(0.5)
        seen = model.observe()
        step = plan(seen)
        build_status(seen, step, MetadataQuorumStatus(), "")
        keep_marks(model, seen)
        if model.rng.random() < 0.9:
            model.apply(step)


settle = partial(recovery_model.settle, reconcile=reconcile, limit=LIMIT)


def condition(seen: Observation) -> tuple[str, str]:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(cluster_id="c1"), "")
    found = next(each for each in status.conditions if each.type == IDENTITY_MISSING)
    assert status.cluster_id == "c1"
    return found.reason, found.message


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    replicas=st.sampled_from([1, 3, 5]),
    at=st.integers(0, 40),
    strip=st.booleans(),
    sets=st.integers(0, 2),
)
def test_deleted_identity_is_recreated_unchanged_without_a_second_formation(
    seed: int, replicas: int, at: int, strip: bool, sets: int
) -> None:
    """Before, during and after the formation; together with StatefulSets."""
    model, draw = fresh(seed, replicas), random.Random(seed)
    reconcile(model, at)
    if strip:
        strip_identity(model)
    elif model.sets:
        delete_identity(model)
        reconcile(model, draw.randrange(3))
    for each in draw.sample(list(model.sets.values()), min(sets, len(model.sets))):
        if model.formed.get(model.index, False):
            delete_set(model, each)
    settle(model)
    assert len(model.born) == 1
    assert len({each.cluster_id for each in model.born.values()}) == 1


def lost(seed: int = 4) -> RecoveryModel:
    model = fresh(seed, 3)
    settle(model)
    reconcile(model, 3)
    return model


def test_identity_is_recreated_immediately_from_a_confirmed_describe() -> None:
    model = lost()
    delete_identity(model)
    step = plan(model.observe())
    assert isinstance(step, RebuildIdentity)
    assert (step.cluster_id, step.formed) == ("c1", True)


def test_identity_is_recreated_without_majority_from_all_sets_and_one_voter_log() -> None:
    model = lost()
    delete_identity(model)
    seen = replace(model.observe(), view=None, hinted_voters=None)
    assert isinstance(plan(seen), RebuildIdentity)
    silent = tuple(replace(each, report=None) for each in seen.incarnations)
    seen = replace(seen, incarnations=silent)
    step = plan(seen)
    assert isinstance(step, Wait)
    assert condition(seen) == ("IdentityGone", step.reason)
    assert "no voter with that id in its log answers" in step.reason


def test_contradicting_evidence_is_named_and_no_identity_is_created() -> None:
    model = lost()
    delete_identity(model)
    seen = model.observe()
    first, *others = seen.incarnations
    silent = tuple(replace(each, report=None) for each in seen.incarnations)
    for other in (
        replace(seen, known_cluster_id="c9", view=None, incarnations=silent),
        replace(seen, incarnations=(replace(first, cluster_id="c9"), *others)),
    ):
        step = plan(other)
        assert isinstance(step, Wait)
        assert "c9" in step.reason
        assert "c1" in step.reason


def test_cluster_id_that_was_edited_in_the_status_does_not_prevent_recreation() -> None:
    model = lost()
    delete_identity(model)
    seen = replace(model.observe(), known_cluster_id="c9")
    for other in (seen, replace(seen, view=None, hinted_voters=None)):
        step = plan(other)
        assert isinstance(step, RebuildIdentity)
        assert step.cluster_id == "c1"


def test_no_formation_while_the_status_names_voters() -> None:
    """All objects but the resource itself are gone."""
    model = lost()
    model.sets.clear()
    model.identities.clear()
    seen = model.observe()
    step = plan(seen)
    assert isinstance(step, Wait)
    assert "spec.earlierClaims" in condition(seen)[1]


@pytest.mark.parametrize("answering", [True, False])
def test_lost_annotation_permits_no_second_founder(answering: bool) -> None:
    """Whoever of the members is left, and whether they answer or not."""
    model = lost()
    strip_identity(model)
    founder = model.born[1].founder_id
    seen = model.observe()
    rest = tuple(
        each if answering else replace(each, report=None)
        for each in seen.incarnations
        if each.node_id != founder
    )
    for known in (3, 0):
        left = replace(seen, incarnations=rest, view=None, known_voters=known, hinted_voters=None)
        for step in (plan(left), plan(replace(left, identities=(replace(seen.identities[0]),)))):
            assert not (isinstance(step, CreateMember) and step.founder), step
            assert not isinstance(step, CreateIdentity), step


def test_lost_annotation_is_rewritten() -> None:
    model = lost()
    strip_identity(model)
    assert isinstance(plan(model.observe()), RecordFormed)
    settle(model)
    assert all(each.formed for each in model.identities)


def test_removed_format_permission_proves_the_formation() -> None:
    """The founder's template is the only remaining evidence."""
    model = lost()
    reconcile(model, 10)
    strip_identity(model)
    seen = model.observe()
    silent = tuple(replace(each, report=None) for each in seen.incarnations)
    seen = replace(seen, incarnations=silent, view=None, hinted_voters=None, known_voters=0)
    assert plan(seen) == RecordFormed(1, "the members report that the quorum has formed")


def test_founder_lost_with_its_claim_before_formation_requires_a_decision() -> None:
    model = fresh(9, 3)
    for _ in range(60):
        reconcile(model)
        if len(model.sets) >= 2 and not model.identities[0].formed:
            break
    founder = next(each for each in model.sets.values() if each.founder)
    del model.sets[founder.name]
    model.tick(0.5)
    seen = replace(model.observe(), view=None)
    step = plan(seen)
    assert isinstance(step, Wait), step
    assert "delete the resource and apply it again" in step.reason
    assert Key(founder.node_id, founder.uuid or "") not in [each.key for each in seen.incarnations]
