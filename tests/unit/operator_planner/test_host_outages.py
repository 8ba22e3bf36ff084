"""Simulated histories: hosts fail and return, pods lose labels, members are retired meanwhile.

The operator's steps never leave the live voters without a majority (`Model.apply` checks each step), and when the
hosts are back the quorum converges to its spec.
"""

import random
from collections import Counter
from dataclasses import replace

import pytest

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import Wanted
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.status_crd import MetadataQuorumStatus
from support.model_rules import majority
from support.modelled_hosts import HostModel
from support.quorum_model import STORAGE

CALM_LIMIT = 400
ACTS = ("away", "away", "back", "back", "label", "crash", "retire", "unretire", "scale", "calm")


def look(model: HostModel) -> steps.Step:
    """One reconcile, which may be lost half way, and the time until the next one."""
    seen = model.observe()
    step = plan(seen)
    assert {seen.name for seen in seen.incarnations if seen.name in model.unreachable} == set(
        model.unreachable
    )
    if [step] != model.steps[-1:]:  # most observations repeat the previous one
        status = build_status(seen, step, MetadataQuorumStatus(), "app=q")
        absent = {each.id for each in status.members if each.unreachable_since is not None}
        assert len(absent) <= len(model.unreachable)
    if model.rng.random() < 0.9:
        model.apply(step)
    if isinstance(step, steps.Wait):
        model.tick(max(step.retry_after_s, 0.2))
    elif isinstance(step, steps.Nothing):
        model.tick(1.0)
    elif model.rng.random() < 0.5:
        model.tick(0.05)
    return step


def is_healthy(model: HostModel) -> bool:
    voters = model.current_voters()
    return len(voters) == model.wanted.replicas and len(model.live()) == len(voters)


def settle(model: HostModel) -> None:
    for _ in range(CALM_LIMIT):
        model.tick(0.3)
        if isinstance(look(model), steps.Nothing) and is_healthy(model):
            return
    history = "\n".join(str(each) for each in model.steps[-30:])
    raise AssertionError(
        f"not settled: {model.current_voters()} live {model.live()} away {model.away}\n{history}"
    )


def act(model: HostModel, what: str, draw: random.Random) -> None:
    wanted = model.wanted
    there = [each for each in model.sets.values() if each.pod is not None and each.replicas]
    near = [each for each in there if each.name not in model.away]
    if what == "away" and near:
        model.leave(draw.choice(near))
    elif what == "back" and model.away:
        model.come_back(draw.choice(sorted(model.away)))
    elif what == "label" and there:
        model.edited.add(draw.choice(there).name)
    elif what == "crash" and near:
        model.crash_pod(draw.choice(near))
    elif what == "retire" and there and len(wanted.retire) < 3:
        model.wanted = replace(wanted, retire=wanted.retire | {draw.choice(there).node_id})
    elif what == "unretire" and wanted.retire:
        model.wanted = replace(wanted, retire=frozenset())
    elif what == "scale":
        model.wanted = replace(wanted, replicas=draw.choice([3, 5]))
    model.tick(0.1)


def story(seed: int) -> Counter[str]:
    """What was done in it."""
    draw = random.Random(seed)
    wanted = Wanted(
        draw.choice([3, 5]),
        STORAGE,
        replacement_order=draw.choice(list(ReplacementOrder)),
        max_replacements_per_hour=60,
        unreachable_after_s=draw.choice([None, 10.0, 40.0]),
    )
    model = HostModel(random.Random(seed), wanted)
    settle(model)
    for _ in range(12):
        act(model, draw.choice(ACTS), draw)
        for _ in range(draw.randrange(25)):
            look(model)
    for name in sorted(model.away):
        model.come_back(name)
    settle(model)
    assert not model.edited
    assert {key.id for key in model.current_voters()}.isdisjoint(model.wanted.retire)
    return Counter(type(each).__name__ for each in model.steps)


@pytest.mark.parametrize("first", range(0, 12, 6))
@pytest.mark.requirement("OP-04")
def test_quorum_converges_while_hosts_fail_and_return(first: int) -> None:
    for seed in range(first, first + 6):
        story(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(12, 120, 6))
def test_quorum_converges_for_many_host_outages(first: int) -> None:
    for seed in range(first, first + 6):
        story(seed)


def lasting_outage(seed: int, size: int, gone: int, **wanted: object) -> HostModel:
    """Some hosts stay away, for good; then an hour of looks."""
    requested: dict[str, object] = {"unreachable_after_s": 30.0, **wanted}
    model = HostModel(random.Random(seed), Wanted(size, STORAGE, **requested))  # type: ignore[arg-type]
    settle(model)
    for key in random.Random(seed).sample(model.current_voters(), gone):
        each = model.set_of(key)
        assert each is not None
        model.leave(each)
    return model


@pytest.mark.parametrize(("size", "gone"), [(3, 1), (5, 1), (5, 2)])
@pytest.mark.requirement("OP-04")
def test_quorum_converges_without_hosts_that_never_return(size: int, gone: int) -> None:
    for seed in range(6):
        model = lasting_outage(seed, size, gone)
        before = {key.id for key in model.current_voters()}
        settle(model)
        assert {key.id for key in model.current_voters()} == before


@pytest.mark.parametrize("order", ReplacementOrder)
@pytest.mark.requirement("OP-04")
def test_retirement_completes_while_the_host_is_away(order: ReplacementOrder) -> None:
    for seed in range(6):
        model = lasting_outage(seed, 3, 1, unreachable_after_s=None, replacement_order=order)
        (name,) = model.away
        retired = frozenset({model.sets[name].node_id})
        model.wanted = replace(model.wanted, retire=retired)
        settle(model)
        assert {key.id for key in model.current_voters()}.isdisjoint(retired)
        seen = model.observe()
        status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
        assert status.phase.value == "Ready"
        model.come_back(name)
        settle(model)
        assert name not in model.sets


@pytest.mark.requirement("OP-04")
def test_zone_outage_causes_no_replacement() -> None:
    for seed in range(4):
        model = lasting_outage(seed, 5, 2)
        model.zone_is_away = True
        voters, sets = list(model.current_voters()), set(model.sets)
        for _ in range(300):
            look(model)
        assert model.current_voters() == voters
        assert set(model.sets) == sets
        for name in sorted(model.away):
            model.come_back(name)
        settle(model)
        assert sorted(model.current_voters()) == sorted(voters)


@pytest.mark.requirement("OP-04")
def test_no_member_is_replaced_without_a_majority() -> None:
    for seed in range(4):
        model = lasting_outage(seed, 3, 2)
        voters, sets = list(model.current_voters()), set(model.sets)
        for _ in range(200):
            look(model)
        assert len(model.live()) < majority(3)
        assert (model.current_voters(), set(model.sets)) == (voters, sets)


def test_generated_host_outages_cover_all_cases() -> None:
    done: Counter[str] = Counter()
    for seed in range(12):
        done += story(seed)
    assert {"RestoreLabels", "RemoveVoter", "AddVoter", "CreateMember", "Wait"} <= done.keys()
