"""Rounds of random acts: the same seed gives the same round, no act is left out, no round destroys a majority."""

import pytest

from support.random_changes.act import Act
from support.random_changes.catalogue import DRAWN, EVERY, HELD_BACK, named
from support.random_changes.drawing import draw, is_bearable
from support.seeded_rounds import lines_of_another_process

_SEEDS = range(1, 301)


def test_same_seed_gives_the_same_round_in_another_process() -> None:
    program = (
        "from support.random_changes.catalogue import DRAWN\nfrom support.random_changes.drawing import draw\n"
        "for seed in range(1, 9): print(draw(seed, DRAWN))"
    )
    assert lines_of_another_process(program) == [
        line for seed in range(1, 9) for line in str(draw(seed, DRAWN)).splitlines()
    ]


def test_different_seeds_give_different_rounds() -> None:
    rounds = {
        tuple((each.act.name, each.at_s) for each in draw(seed, DRAWN).acts) for seed in _SEEDS
    }
    assert len(rounds) == len(_SEEDS)


def test_every_action_is_in_some_round_of_the_long_set() -> None:
    drawn = {each.act.name for seed in _SEEDS for each in draw(seed, DRAWN).acts}
    assert drawn == {each.name for each in DRAWN}


def test_actions_of_a_round_overlap() -> None:
    """In most rounds some nuisance has not passed yet when the next act begins."""
    overlapping = 0
    for seed in _SEEDS:
        acts = draw(seed, DRAWN).acts
        ends = [each.at_s + (each.lasts_s or 0) for each in acts]
        starts = [each.at_s for each in acts[1:]]
        overlapping += any(end > start for end, start in zip(ends, starts, strict=False))
    assert overlapping > len(_SEEDS) // 2


def test_no_round_destroys_more_than_its_smallest_quorum_can_lose() -> None:
    for seed in _SEEDS:
        plan = draw(seed, EVERY)
        sizes = [each.act.wants for each in plan.acts if each.act.wants is not None]
        destroyed = sum(each.act.destroys for each in plan.acts)
        assert destroyed <= (min([plan.replicas, *sizes]) - 1) // 2, plan


def test_no_disk_failure_with_a_single_voter() -> None:
    assert is_bearable(3, [named("fail-disk")])
    assert not is_bearable(3, [named("fail-disk"), named("scale-to-one")])
    assert not is_bearable(3, [named("fail-disk"), named("delete-claim")])
    assert is_bearable(5, [named("fail-disk"), named("delete-claim")])


def test_exclusive_action_runs_alone_in_its_round() -> None:
    alone = [each for each in EVERY if each.alone]
    assert [each.name for each in alone] == ["lose-the-majority", "delete-all-claims"]
    assert is_bearable(3, alone[:1])
    assert not is_bearable(5, [*alone, named("delete-pod")])
    for seed in _SEEDS:
        acts = [each.act for each in draw(seed, EVERY).acts]
        assert len(acts) == 1 or not any(each.alone for each in acts)


def test_names_are_unique_and_only_actions_are_delayed() -> None:
    names = [each.name for each in EVERY]
    assert len(set(names)) == len(names)
    assert HELD_BACK.keys() <= set(names)


@pytest.mark.parametrize("each", EVERY, ids=lambda each: each.name)
def test_temporary_fault_lasts_some_seconds(each: Act) -> None:
    lasts = each.lasts_s
    assert lasts is None or 0 < lasts[0] <= lasts[1] <= 90
