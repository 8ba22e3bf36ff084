"""A deleted identity whose cluster id the status and the claims disagree about, while all StatefulSets are gone."""

import random
from dataclasses import replace
from functools import partial

from quorum_operator.planner.observed import Observation, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import RebuildIdentity, Wait
from support import recovery_model
from support.modelled_claims import delete_set, keep_marks
from support.modelled_identity import delete_identity
from support.quorum_model import STORAGE
from support.recovery_model import RecoveryModel


def reconcile(model: RecoveryModel, times: int = 1) -> None:
    for _ in range(times):
        model.tick(0.5)
        seen = model.observe()
        keep_marks(model, seen)
        model.apply(plan(seen))


settle = partial(recovery_model.settle, reconcile=reconcile, limit=400)


def contradicted(sets: int = 0) -> Observation:
    """The claims are of the cluster c1. `sets`: of so many members the StatefulSet is left."""
    wanted = Wanted(3, STORAGE, debounce_s=5.0, max_replacements_per_hour=60)
    model = RecoveryModel(random.Random(4), wanted)
    settle(model)
    reconcile(model, 3)
    delete_identity(model)
    for each in list(model.sets.values())[sets:]:
        delete_set(model, each)
    seen = replace(model.observe(), view=None, hinted_voters=None, known_cluster_id="c9")
    silent = tuple(replace(each, report=None) for each in seen.incarnations)
    return replace(seen, incarnations=silent)


def confirming(seen: Observation, cluster_id: str) -> Observation:
    return replace(seen, wanted=replace(seen.wanted, adopt=cluster_id))


def test_user_confirms_the_cluster_id_of_the_claims() -> None:
    seen = contradicted()
    step = plan(seen)
    assert isinstance(step, Wait)
    assert "conflicting cluster ids" in step.reason
    assert "confirm the right one: set spec.earlierClaims" in step.reason
    step = plan(confirming(seen, "c1"))
    assert isinstance(step, RebuildIdentity)
    assert (step.cluster_id, step.formed) == ("c1", True)


def test_cluster_id_of_no_claim_is_never_used() -> None:
    for confirmed in ("c9", "c7"):
        assert isinstance(plan(confirming(contradicted(), confirmed)), Wait)


def test_stateful_set_decides_against_any_other_confirmation() -> None:
    """Its immutable claim template names the cluster."""
    seen = contradicted(sets=1)
    step = plan(seen)
    assert isinstance(step, Wait)
    assert "confirm the right one" in step.reason
    assert isinstance(plan(confirming(seen, "c9")), Wait)
    assert isinstance(plan(confirming(seen, "c1")), RebuildIdentity)
    (each,) = seen.incarnations
    other = replace(seen, incarnations=(each, replace(each, name="q-9-1", cluster_id="c2")))
    for confirmed in ("c1", "c2", "c9"):
        step = plan(confirming(other, confirmed))
        assert isinstance(step, Wait)
        assert "confirm the right one" not in step.reason
