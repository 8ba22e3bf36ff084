"""Histories of brokers hold, and each way of breaking the data path is caught (see broker_breaks.py)."""

from collections import Counter
from dataclasses import fields

import pytest

from quorum_simulation.broker.watch import Violation
from quorum_simulation.broker.world import Outcome, play
from quorum_simulation.scheduler import Spinning
from support.break_table import BreakFiles

SEEDS = range(1, 21)
KINDS = {
    "kill",
    "kill of all",
    "full disk",
    "lost disk",
    "power cut",
    "slow disk",
    "pause",
    "graceful stop",
    "partition",
    "one-way cut",
    "delay",
    "duplicate",
    "cut from the controller",
    "controller failover",
    "deleted records",
    "move of a leadership",
    "moves in a row",
}
LONG_PARTS = 10
PART_SEEDS = 500
TRIED = range(1, 200)
TRIED_FIRST = {"take_answers_from_before_a_truncation": 444, "stop_cleanly_without_a_flush": 34}
"""What catches rare ones soonest, as the histories are now."""


def test_twenty_histories_hold_and_cover_every_event() -> None:
    outcomes = [play(seed) for seed in SEEDS]
    for field in fields(Outcome):
        if field.name not in ("struck", "cpu_s", "restarts"):
            total = sum(getattr(each, field.name) for each in outcomes)
            assert total >= len(SEEDS) / 2, (field.name, total)
    struck = sum((each.struck for each in outcomes), Counter[str]())
    assert set(struck) == KINDS
    assert sum(each.restarts for each in outcomes)


def test_seed_gives_the_same_history() -> None:
    assert play(4) == play(4)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(LONG_PARTS))
def test_thousands_of_histories_hold(part: int) -> None:
    first = 1001 + part * PART_SEEDS
    for seed in range(first, first + PART_SEEDS):
        play(seed)


@pytest.mark.parametrize("broken", BreakFiles().by_brokers, ids=lambda each: each.__name__)
def test_broker_simulation_detects_the_defect(
    broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(broken)
    broken(monkeypatch)
    first = TRIED_FIRST.get(getattr(broken, "__name__", ""), TRIED[0])
    for seed in (first, *TRIED):
        try:
            play(seed)
        except (Violation, AssertionError, Spinning):
            return
    pytest.fail(f"{len(TRIED)} histories went well with broken code")
