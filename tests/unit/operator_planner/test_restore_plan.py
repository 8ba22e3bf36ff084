"""A quorum that begins with a backup: one voter, then the others one at a time; never a second founder by itself."""

import random
from dataclasses import replace

import pytest

from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import PodFacts, Wanted
from quorum_operator.planner.plan import plan
from support.quorum_model import STORAGE, Model


def restored(seed: int, replicas: int) -> Model:
    wanted = Wanted(replicas, STORAGE, debounce_s=5.0, max_replacements_per_hour=60, restores=True)
    return Model(random.Random(seed), wanted)


def reconcile(model: Model) -> steps.Step:
    model.tick(0.5)
    step = plan(model.observe())
    model.apply(step)
    return step


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_restored_quorum_grows_from_one_voter_to_the_specified_size(
    seed: int, replicas: int
) -> None:
    model, taken = restored(seed, replicas), list[steps.Step]()
    for _ in range(300):
        taken.append(reconcile(model))
        if isinstance(taken[-1], steps.Nothing) and len(model.live()) == replicas:
            break
    assert len(model.current_voters()) == len(model.live()) == replicas
    (identity,) = (each for each in taken if isinstance(each, steps.CreateIdentity))
    assert identity.initial_voters == 1
    formed = next(at for at, each in enumerate(taken) if isinstance(each, steps.RecordFormed))
    made = [at for at, each in enumerate(taken) if isinstance(each, steps.CreateMember)]
    assert [at for at in made if at < formed] == made[:1], "the founder alone, until it leads"
    assert all(
        each.founder is (at == made[0])
        for at in made
        if isinstance(each := taken[at], steps.CreateMember)
    )
    added = [each for each in taken if isinstance(each, steps.AddVoter)]
    assert len(added) == replicas - 1


@pytest.mark.requirement("OP-10")
def test_founder_with_a_failed_disk_during_restore_requires_a_decision() -> None:
    model = restored(1, 3)
    while not model.sets:
        reconcile(model)
    (founder,) = model.sets.values()
    model.fail_disk(founder, "failed")
    for _ in range(100):
        step = reconcile(model)
        assert not isinstance(step, steps.CreateIdentity)
    assert isinstance(step, steps.Wait)
    assert "delete the resource and apply it again. The backup is unchanged" in step.reason


@pytest.mark.requirement("OP-10")
def test_plan_shows_why_the_founder_does_not_restore() -> None:
    model = restored(1, 3)
    while not model.sets:
        reconcile(model)
    seen = model.observe()
    (founder,) = seen.incarnations
    refused = "BadConfiguration: /b holds backups of cluster a, and none of cluster b: correct it"
    pod = PodFacts(
        "p",
        "u",
        created_at=seen.now,
        restart_hash=seen.templates[founder.name].restart_hash,
        ready=False,
        running=False,
        exit_code=78,
        exit_message=refused,
        waiting_reason="CrashLoopBackOff",
    )
    founder = replace(founder, pod=pod, report=None)
    step = plan(replace(seen, incarnations=(founder,)))
    assert isinstance(step, steps.Wait)
    assert step.blocked_by == f"{founder.name}: {refused}"
