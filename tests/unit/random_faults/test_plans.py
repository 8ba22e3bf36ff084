"""Rounds of random faults: the same seed gives the same round, all faults occur, and at most one log directory is lost."""

import pytest

from support.random_faults.acts import CATALOGUE
from support.random_faults.breaks import BREAKS, Break, broken_text, run_test_of
from support.random_faults.plan import (
    FAULTS,
    LOST_DIRECTORY,
    MIXED,
    OF_OURS,
    OPERATIONS,
    OURS,
    draw,
    is_stock,
)
from support.seeded_rounds import lines_of_another_process

_SEEDS = range(1, 121)
"""Those of the long set."""


def test_same_seed_gives_the_same_round_in_another_process() -> None:
    program = (
        "from support.random_faults.plan import draw\nfor seed in range(1, 9): print(draw(seed))"
    )
    assert lines_of_another_process(program) == [
        line for seed in range(1, 9) for line in str(draw(seed)).splitlines()
    ]


def test_different_seeds_give_different_rounds() -> None:
    rounds = {tuple((each.name, each.at_s) for each in draw(seed).acts) for seed in _SEEDS}
    assert len(rounds) == len(_SEEDS)


def test_half_of_the_rounds_are_in_mixed_clusters() -> None:
    clusters = [draw(seed).brokers for seed in _SEEDS]
    assert clusters.count(OURS) == clusters.count(MIXED) == len(_SEEDS) // 2
    assert all(draw(seed).is_mixed == (seed % 2 == 0) for seed in _SEEDS)


def test_every_act_is_drawn_and_can_be_done() -> None:
    drawn = {each.name for seed in _SEEDS for each in draw(seed).acts}
    assert drawn == {*FAULTS, *OPERATIONS} == set(CATALOGUE)


def test_faults_of_most_rounds_overlap() -> None:
    overlapping = 0
    for seed in _SEEDS:
        faults = [each for each in draw(seed).acts if each.name in FAULTS]
        ends = [each.at_s + each.lasts_s for each in faults]
        starts = [each.at_s for each in faults[1:]]
        overlapping += any(end > start for end, start in zip(ends, starts, strict=False))
    assert overlapping > len(_SEEDS) * 2 // 3


def test_no_round_loses_two_directories_or_one_of_a_stock_broker() -> None:
    for seed in _SEEDS:
        acts = draw(seed).acts
        assert [each.name for each in acts].count(LOST_DIRECTORY) <= 1
        assert not any(is_stock(each.broker) for each in acts if each.name in OF_OURS)


def test_single_controller_is_never_killed() -> None:
    for seed in _SEEDS:
        plan = draw(seed)
        if plan.controllers == 1:
            assert all(each.name != "kill-controller" for each in plan.acts)


@pytest.mark.parametrize("defect", BREAKS, ids=lambda each: each.name)
def test_deliberate_defect_can_be_inserted(defect: Break) -> None:
    compile(broken_text(defect), defect.module, "exec")


@pytest.mark.long
@pytest.mark.parametrize("defect", [each for each in BREAKS if each.test], ids=lambda d: d.name)
def test_defect_that_rounds_rarely_show_is_caught_by_its_test(defect: Break) -> None:
    assert run_test_of(defect) == 1
