"""StatefulSets that were deleted are recreated with their claims; marked claims never are; no lossy recovery is offered meanwhile."""

import random
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_operator.planner.observed import Key
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import RebuildMember
from quorum_operator.status_crd import MetadataQuorumStatus
from support import recovery_model
from support.model_rules import majority
from support.modelled_claims import delete_set, keep_marks, mark_before, strip_notes
from support.recovery_model import RecoveryModel, voters

pytestmark = pytest.mark.requirement("OP-07")

SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
ACTS = ("delete", "delete", "strip", "fail", "scale", "retire", "crash", "calm")


def reconcile(model: RecoveryModel, times: int = 1) -> None:
    """One step in ten is lost, or half done: its marks are written and the rest is not."""
    for _ in range(times):
        model.tick(0.5)
        seen = model.observe()
        step = plan(seen)
        status = build_status(seen, step, MetadataQuorumStatus(), "")
        check_offer(model, status)
        fate = model.rng.random()
        if fate < 0.95:
            keep_marks(model, seen)
        if fate < 0.9:
            model.apply(step)
        elif fate < 0.95:
            mark_before(model, step)


def check_offer(model: RecoveryModel, status: MetadataQuorumStatus) -> None:
    """No lossy recovery while a majority could be restored from claims that are not marked as failed."""
    if status.quorum_loss is None or status.quorum_loss.offer is None:
        return
    able = [key for key in model.current_voters() if model.is_live(key)]
    left = {
        Key(each.node_id, each.disk.uuid or "")
        for each in model.lone.values()
        if each.disk.marks.bars is None and each.disk.state == "ok"
    }
    there = len(set(able) | (left & set(model.current_voters())))
    assert there < majority(len(model.current_voters())), status.quorum_loss


formed = partial(recovery_model.formed, reconcile=reconcile)
settle = partial(recovery_model.settle, reconcile=reconcile)


@SETTINGS
@given(seed=st.integers(0, 2**32), replicas=st.sampled_from([1, 3, 5]), count=st.integers(1, 5))
def test_deleted_stateful_sets_are_recreated_with_the_same_replicas(
    seed: int, replicas: int, count: int
) -> None:
    model, draw = formed(seed, replicas), random.Random(seed)
    reconcile(model, 5)
    keys, names = set(model.current_voters()), set(model.sets)
    for each in draw.sample(voters(model), min(count, replicas)):
        delete_set(model, each)
        reconcile(model, draw.randrange(3))
    settle(model)
    assert set(model.current_voters()) == keys
    assert set(model.sets) == names


@SETTINGS
@given(seed=st.integers(0, 2**32), replicas=st.sampled_from([3, 5]))
def test_surviving_claims_restore_the_majority_after_failed_disks_and_deleted_sets(
    seed: int, replicas: int
) -> None:
    """More members are away than may fail, and no more disks are dead than may die."""
    model, draw = formed(seed, replicas), random.Random(seed)
    reconcile(model, 5)
    everyone = voters(model)
    draw.shuffle(everyone)
    dead = everyone[: replicas - majority(replicas)]
    for each in dead:
        model.fail_disk(each, draw.choice(["failed", "host-gone", "mount-fails"]))
    model.tick(0.1)
    reconcile(model, draw.randrange(4))
    for each in everyone[len(dead) : len(dead) + draw.randint(1, 2)]:
        if each.name in model.sets:
            delete_set(model, each)
    kept = {Key(each.node_id, each.disk.uuid or "") for each in everyone[len(dead) :]}
    settle(model)
    assert kept <= set(model.current_voters())
    assert not model.recovered


@SETTINGS
@given(
    seed=st.integers(0, 2**32),
    replicas=st.sampled_from([1, 3, 5]),
    acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 12)), max_size=10),
)
def test_deleted_sets_and_removed_annotations_converge_with_all_other_failures(
    seed: int, replicas: int, acts: list[tuple[str, int]]
) -> None:
    """The model rejects a step that runs a marked claim, or that formats a founder again."""
    model, draw = formed(seed, replicas), random.Random(seed)
    reconcile(model, 5)
    for act, times in acts:
        _act(model, act, draw)
        reconcile(model, times)
    settle(model)


def _act(model: RecoveryModel, act: str, draw: random.Random) -> None:
    victim = draw.choice(list(model.sets.values())) if model.sets else None
    voter = draw.choice(voters(model)) if voters(model) else None
    if act == "delete" and victim is not None and victim.recovery is None:
        delete_set(model, victim)
    elif act == "strip" and victim is not None:
        strip_notes(victim)
    elif act == "scale":
        model.wanted = replace(model.wanted, replicas=draw.choice([1, 3, 5]))
    elif act == "retire" and voter is not None and len(model.wanted.retire) < 2:
        model.wanted = replace(model.wanted, retire=model.wanted.retire | {voter.node_id})
    elif act == "crash" and voter is not None:
        model.crash_pod(voter)
    elif act == "fail" and voter is not None:
        intact = len([one for one in voters(model) if one.disk.state == "ok"]) + len(model.lone)
        others = [one for one in voters(model) if one is not voter and one.disk.state == "ok"]
        if len(others) >= majority(len(model.current_voters())) and intact:
            model.fail_disk(voter, "failed")


def test_failed_member_with_a_deleted_set_is_replaced_and_not_restarted() -> None:
    model = formed(5, 3)
    reconcile(model, 5)
    each = voters(model)[0]
    model.fail_disk(each, "failed")
    for _ in range(60):
        reconcile(model)
        if each.failed is not None:
            break
    delete_set(model, each)
    each.disk.state = "ok"
    settle(model)
    assert each.name not in model.sets
    assert not any(
        isinstance(step, RebuildMember) and step.claim.member == each.name for step in model.steps
    )


def test_recovery_is_offered_when_no_claim_is_left() -> None:
    model = formed(3, 3)
    reconcile(model, 5)
    first, second, _ = voters(model)
    delete_set(model, first)
    delete_set(model, second)
    model.lone.clear()  # their claims as well
    for _ in range(60):
        reconcile(model)
        seen = model.observe()
        status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
        if status.quorum_loss is not None and status.quorum_loss.offer is not None:
            return
    raise AssertionError(status.quorum_loss)


def test_no_lossy_recovery_while_voter_claims_exist_and_they_are_named() -> None:
    """Paused: the StatefulSets are not recreated meanwhile."""
    model = formed(8, 3)
    reconcile(model, 5)
    model.wanted = replace(model.wanted, paused=True)
    for each in voters(model)[:2]:
        delete_set(model, each)
    reconcile(model, 80)
    seen = model.observe()
    loss = build_status(seen, plan(seen), MetadataQuorumStatus(), "").quorum_loss
    assert loss is not None
    assert loss.offer is None
    for each in model.lone.values():
        assert f"data-{each.name}-0" in (loss.no_offer or "")
    model.wanted = replace(model.wanted, paused=False)
    settle(model)
