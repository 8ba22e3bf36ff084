"""Volumes of failed members are kept as long as the spec says, and are deleted only from a quorum that is complete without them."""

import random
from dataclasses import replace

import pytest

from quorum_operator.crd import MetadataQuorumSpec
from quorum_operator.planner.harm import harm, may_harm
from quorum_operator.planner.observed import Incarnation, Observation, PodFacts, Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import DeleteIncarnation, DiscardVolume, Nothing, Step
from quorum_operator.status_crd import MetadataQuorumStatus
from support.quorum_model import STORAGE, Model

KEEP_S = 3600.0


def settle(model: Model) -> None:
    for _ in range(400):
        model.tick(0.5)
        step = plan(model.observe())
        model.apply(step)
        if isinstance(step, Nothing) and len(model.live()) == 3:
            return
    raise AssertionError("the quorum does not settle")


@pytest.fixture(scope="module")
def repaired() -> Observation:
    """A member's disk has failed, and its successor is a voter."""
    model = Model(random.Random(1), Wanted(3, STORAGE))
    settle(model)
    leader = model.leader
    victim = next(e for e in model.sets.values() if (e.node_id, e.disk.uuid) != leader)
    model.fail_disk(victim, "failed")
    model.tick(1.0)
    settle(model)
    return model.observe()


def failed(seen: Observation) -> Incarnation:
    (found,) = [each for each in seen.incarnations if each.failed is not None]
    return found


def later(seen: Observation, after_s: float, keep_s: float | None = KEEP_S) -> Observation:
    latch = failed(seen).failed
    assert latch is not None
    wanted = replace(seen.wanted, keep_failed_s=keep_s)
    return replace(seen, wanted=wanted, now=latch.at + after_s)


def changed(seen: Observation, **facts: object) -> Observation:
    gone = failed(seen)
    members = tuple(
        replace(each, **facts) if each.name == gone.name else each  # type: ignore[arg-type]
        for each in seen.incarnations
    )
    return replace(seen, incarnations=members)


def owned(seen: Observation) -> Observation:
    """Kubernetes has made the StatefulSet the claim's owner."""
    each = failed(seen)
    assert each.claim is not None
    claim = replace(each.claim, owners=frozenset({each.uid}))
    return changed(seen, claim=claim)


@pytest.mark.requirement("OP-10")
def test_failed_volume_is_kept_indefinitely_by_default(repaired: Observation) -> None:
    seen = later(repaired, 1e9, None)
    assert isinstance(plan(seen), Nothing)
    (reported,) = build_status(seen, plan(seen), MetadataQuorumStatus(), "").kept_volumes
    assert reported.pvc == f"data-{failed(seen).name}-0"
    assert reported.deleted_after is None


@pytest.mark.requirement("OP-10")
def test_expired_volume_has_its_reclaim_policy_set_before_its_member_is_deleted(
    repaired: Observation,
) -> None:
    early = later(repaired, KEEP_S - 1)
    assert isinstance(plan(early), Nothing)
    (reported,) = build_status(early, plan(early), MetadataQuorumStatus(), "").kept_volumes
    assert reported.deleted_after is not None
    due = later(repaired, KEEP_S)
    step = plan(due)
    assert isinstance(step, DiscardVolume)
    assert step.target.uid == failed(due).uid
    step = plan(owned(due))
    assert isinstance(step, DeleteIncarnation)
    assert step.target.name == failed(due).name


def _without_view(seen: Observation) -> Observation:
    return replace(seen, view=None)


def _pending(seen: Observation) -> Observation:
    assert seen.view is not None
    return replace(seen, view=replace(seen.view, pending_change=True))


def _behind(seen: Observation) -> Observation:
    assert seen.view is not None
    first, *rest = seen.view.voters
    other = next(each for each in (first, *rest) if each.key != seen.view.leader)
    slow = tuple(
        replace(each, caught_up=False) if each.key == other.key else each
        for each in seen.view.voters
    )
    return replace(seen, view=replace(seen.view, voters=slow))


def _scaling(seen: Observation) -> Observation:
    return replace(seen, wanted=replace(seen.wanted, replicas=5))


def _paused(seen: Observation) -> Observation:
    return replace(seen, wanted=replace(seen.wanted, paused=True))


def _fenced(seen: Observation) -> Observation:
    latch = failed(seen).failed
    assert latch is not None
    return changed(seen, failed=replace(latch, reason=FENCED))


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    "spoil",
    [_without_view, _pending, _behind, _scaling, _paused, _fenced],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("prepared", [False, True], ids=["first", "second"])
def test_volume_that_might_be_needed_is_kept(
    repaired: Observation, spoil: object, prepared: bool
) -> None:
    due = later(repaired, KEEP_S + 1)
    seen = spoil(owned(due) if prepared else due)  # type: ignore[operator]
    step = plan(seen)
    gone = isinstance(step, DiscardVolume | DeleteIncarnation)
    assert not (gone and step.target.name == failed(seen).name)  # type: ignore[union-attr]


@pytest.mark.requirement("OP-10")
def test_final_check_keeps_volumes_of_running_members_and_voters(repaired: Observation) -> None:
    due = owned(later(repaired, KEEP_S))
    steps: list[Step] = [plan(later(repaired, KEEP_S)), plan(due)]
    for step in steps:
        assert may_harm(step)
        assert harm(Situation(due), step) is None
        pod = PodFacts("p", "u", due.now)
        assert harm(Situation(changed(due, pod=pod)), step) is not None
        assert harm(Situation(_without_view(due)), step) is not None
        voter = next(e for e in due.incarnations if e.failed is None)
        assert (
            harm(Situation(changed(due, uuid=voter.uuid, node_id=voter.node_id)), step) is not None
        )


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("72h", 259_200.0),
        ("30d", 2_592_000.0),
        (None, None),
        ("", None),
    ],
)
def test_invalid_retention_duration_keeps_the_volume(
    text: str | None, seconds: float | None
) -> None:
    spec = MetadataQuorumSpec.model_validate({"storage": {"keepFailedFor": text}})
    assert spec.storage.keep_failed_s == seconds
