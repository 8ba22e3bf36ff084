"""Claims of an earlier resource are never run again by themselves; a confirmed cluster id brings all of them back."""

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.conditions import CLAIMS_IN_DOUBT
from quorum_operator.planner.object_facts import ForeignObject
from quorum_operator.planner.observed import Identity, Marks, Observation, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import (
    AdoptObject,
    CreateIdentity,
    Nothing,
    RebuildIdentity,
    RebuildMember,
    Wait,
)
from quorum_operator.status_crd import MetadataQuorumStatus
from support.modelled_claims import delete_set, keep_marks, recreate
from support.quorum_model import STORAGE
from support.recovery_model import RecoveryModel

pytestmark = pytest.mark.requirement("OP-07")

SETTINGS = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
EARLIER = (
    ForeignObject("StatefulSet", "q-1-1", "", "s1", "7", "c1"),
    ForeignObject("ConfigMap", "q-identity", "", "i1", "8", "c1"),
)


def reconcile(model: RecoveryModel, times: int = 1) -> None:
    for _ in range(times):
        model.tick(0.5)
        seen = model.observe()
        step = plan(seen)
        keep_marks(model, seen)
        if model.rng.random() < 0.9:
            model.apply(step)


def settle(model: RecoveryModel) -> None:
    for _ in range(400):
        reconcile(model)
        complete = len(model.live()) == len(model.current_voters()) == model.wanted.replicas
        if complete and isinstance(model.steps[-1], Nothing):
            return
    raise AssertionError("\n".join(str(each) for each in model.steps[-12:]))


def recreated(seed: int = 1, replicas: int = 3) -> RecoveryModel:
    wanted = Wanted(replicas, STORAGE, debounce_s=5.0, max_replacements_per_hour=60)
    model = RecoveryModel(random.Random(seed), wanted)
    settle(model)
    reconcile(model, 5)
    recreate(model)
    return model


def condition(seen: Observation) -> tuple[str, str]:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    found = next(each for each in status.conditions if each.type == CLAIMS_IN_DOUBT)
    return found.reason, found.message


def test_earlier_claims_are_named_and_nothing_runs_until_a_decision() -> None:
    model = recreated()
    claims = {f"data-{name}-0" for name in model.lone}
    reconcile(model, 20)
    assert not model.sets
    assert not model.identities
    reason, message = condition(model.observe())
    assert reason == "EarlierResource"
    assert all(name in message for name in claims)
    assert "clusterId: c1" in message


@SETTINGS
@given(seed=st.integers(0, 2**32), replicas=st.sampled_from([1, 3, 5]))
def test_confirmed_cluster_continues_with_the_same_replicas(seed: int, replicas: int) -> None:
    model = recreated(seed, replicas)
    keys = set(model.current_voters())
    reconcile(model, 3)
    model.wanted = replace(model.wanted, adopt="c1")
    settle(model)
    assert set(model.current_voters()) == keys
    assert len(model.born) == 1
    assert {each.disk.marks.resource_uid for each in model.sets.values()} == {model.resource_uid}
    model.wanted = replace(model.wanted, adopt=None)
    reconcile(model, 10)
    assert set(model.current_voters()) == keys


def test_different_cluster_id_confirms_nothing() -> None:
    model = recreated()
    model.wanted = replace(model.wanted, adopt="c7")
    step = plan(model.observe())
    assert isinstance(step, Wait)
    assert "no claim of that cluster can be adopted" in step.reason
    assert "set spec.earlierClaims to {policy: Adopt, clusterId: c1}" in step.reason


def test_claims_marked_failed_stay_out_of_the_adopted_quorum() -> None:
    model = recreated(3)
    first = next(iter(model.lone.values()))
    first.disk.marks = replace(first.disk.marks, removed="left")
    model.wanted = replace(model.wanted, adopt="c1")
    settle(model)
    assert first.name not in model.sets
    rebuilt = [step.claim.member for step in model.steps if isinstance(step, RebuildMember)]
    assert first.name not in rebuilt


def test_ignored_earlier_claims_do_not_block_formation() -> None:
    seen = recreated().observe()
    left = replace(seen, wanted=replace(seen.wanted, leave_claims=True))
    assert isinstance(plan(left), CreateIdentity)
    same = replace(left, wanted=replace(left.wanted, cluster_id="c1"))
    step = plan(same)
    assert isinstance(step, Wait), "a cluster id was formed twice"
    assert "exists already" in step.reason
    other = replace(left, wanted=replace(left.wanted, cluster_id="c2"))
    assert isinstance(plan(other), CreateIdentity)
    restored = replace(same, wanted=replace(same.wanted, restores=True))
    assert isinstance(plan(restored), CreateIdentity), "its epochs are beyond those of the claims"
    requested = replace(restored, wanted=replace(restored.wanted, leave_claims=False))
    assert isinstance(plan(requested), Wait), (
        "the administrator has to confirm that the claims are not used"
    )


def test_unmarked_claims_also_require_a_decision() -> None:
    """An operator of an earlier version wrote none."""
    seen = recreated().observe()
    bare = tuple(
        replace(each, claim=replace(each.claim, marks=Marks(formation=1)))
        for each in seen.lone_claims
    )
    seen = replace(seen, lone_claims=bare)
    assert isinstance(plan(seen), Wait)
    assert bare[0].claim.name in condition(seen)[1]


def test_unusable_claims_do_not_block_formation() -> None:
    seen = recreated().observe()
    removed = tuple(
        replace(each, claim=replace(each.claim, marks=replace(each.claim.marks, removed="left")))
        for each in seen.lone_claims
    )
    assert isinstance(plan(replace(seen, lone_claims=removed)), CreateIdentity)


def test_orphaned_objects_are_named_and_adopted_after_confirmation() -> None:
    """`kubectl delete mq --cascade=orphan`, and applied again."""
    seen = replace(recreated().observe(), lone_claims=(), foreign_objects=EARLIER)
    step = plan(seen)
    assert isinstance(step, Wait)
    reason, message = condition(seen)
    assert reason == "EarlierResource"
    assert "ConfigMap/q-identity" in message
    assert "StatefulSet/q-1-1" in message
    adopted = replace(seen, wanted=replace(seen.wanted, adopt="c1"))
    assert plan(adopted) == AdoptObject(
        "ConfigMap", "q-identity", "i1", "8", "ConfigMap/q-identity of the cluster c1 has no owner"
    )
    rest = replace(adopted, foreign_objects=EARLIER[:1], identities=recreated_identity())
    assert isinstance(plan(rest), AdoptObject)


@pytest.mark.parametrize("orphaned", [True, False])
def test_status_written_by_hand_hides_no_earlier_resource(orphaned: bool) -> None:
    """It says that this resource has voters; the way out is still the decision about the earlier one."""
    seen = recreated().observe()
    if orphaned:
        seen = replace(seen, lone_claims=(), foreign_objects=EARLIER)
    written = replace(seen, known_voters=9, known_cluster_id="by-hand")
    assert isinstance(plan(written), Wait)
    reason, message = condition(written)
    assert reason == "EarlierResource"
    assert "clusterId: c1" in message
    decided = plan(replace(written, wanted=replace(written.wanted, adopt="c1")))
    assert isinstance(decided, AdoptObject if orphaned else RebuildIdentity)
    alone = plan(replace(written, lone_claims=(), foreign_objects=()))
    assert isinstance(alone, Wait), "its members may have been deleted: no second formation"


def recreated_identity() -> tuple[Identity, ...]:
    model = RecoveryModel(random.Random(1), Wanted(3, STORAGE))
    reconcile(model, 3)
    return tuple(model.identities)


def test_objects_of_an_existing_owner_are_never_adopted() -> None:
    owned = tuple(replace(each, owners="MetadataQuorum/q") for each in EARLIER)
    seen = replace(recreated().observe(), lone_claims=(), foreign_objects=owned)
    for wanted in (seen.wanted, replace(seen.wanted, adopt="c1")):
        step = plan(replace(seen, wanted=wanted))
        assert isinstance(step, Wait)
        assert "have another owner" in step.reason


def test_ambiguous_claim_is_named_and_runs_after_its_uuid_was_set() -> None:
    model = RecoveryModel(random.Random(6), Wanted(1, STORAGE))
    settle(model)
    reconcile(model, 5)
    only = next(iter(model.sets.values()))
    uuid = only.disk.uuid
    delete_set(model, only)
    only.disk.marks = Marks(formation=1)
    seen = model.observe()
    assert isinstance(plan(seen), Wait)
    reason, message = condition(seen)
    assert reason == "NotCertain"
    assert "data-q-1-1-0 (no replica UUID is written on it)" in message
    only.disk.marks = Marks(uuid=uuid, formation=1)
    assert isinstance(plan(model.observe()), RebuildMember)
    assert not isinstance(plan(model.observe()), RebuildIdentity)
    settle(model)


@pytest.mark.parametrize(
    ("marks", "words"),
    [
        (Marks("U", "c9", "resource-1", 1), "of another cluster"),
        (Marks("U", "c1", "resource-9", 1), "made for another MetadataQuorum"),
        (Marks("U", "c1", "resource-1", 1, fenced="x"), "marked fenced"),
    ],
)
def test_problem_of_a_claim_is_reported(marks: Marks, words: str) -> None:
    model = RecoveryModel(random.Random(6), Wanted(1, STORAGE))
    settle(model)
    only = next(iter(model.sets.values()))
    delete_set(model, only)
    only.disk.marks = marks
    assert words in condition(model.observe())[1]
    assert isinstance(plan(model.observe()), Wait)
