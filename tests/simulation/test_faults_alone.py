"""Each fault is needed: code that only it shows to be broken is caught with it, and not in histories without it.

With it: `test_breaks.py`, with exactly the faults that a break names. Without it: here. Whatever is broken has no effect there, so that
breaks that patch different places are broken together, and share their histories.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorum_simulation.run import Failure, run_seed
from support.break_table import SIMULATION, BreakFiles, load

Break = Callable[[pytest.MonkeyPatch], None]
Place = tuple[int, object]
"""Whose attribute or item is patched: the owner's `id`, and the name."""
HARMLESS = frozenset({"kill", "slow disk"})
"""Instead of no other kinds: a history needs some."""
OTHER_SEEDS = range(1, 6)

storage, world, forgery = (
    load(SIMULATION / f"{name}_breaks.py") for name in ("storage", "world", "forgery")
)
FAULTS_FOR: dict[Break, frozenset[str]] = storage.FAULTS_FOR | world.FAULTS_FOR | forgery.FAULTS_FOR
CASES: tuple[tuple[str, Break, int], ...] = (
    ("bit rot in a snapshot", storage.read_no_snapshot_again, 1),
    ("disk full", storage.vote_without_space, 1),
    ("disk full at sync", storage.acknowledge_without_space, 1),
    ("clock rates", world.read_by_a_lease, 13),
    ("clock jump", world.count_recent_fetches_only, 12),
    ("doubled answers", world.take_an_answer_again, 1),
    ("damaged answers", world.take_records_unchecked, 1),
    ("wall clock", world.time_by_the_time_of_day, 28),
    ("forged votes", forgery.take_any_epoch, 1),
    ("forged leaders", forgery.follow_every_begin_quorum_epoch, 1),
    ("forged addresses", forgery.update_a_voter_for_anyone, 1),
    ("forged fetches", forgery.believe_a_report_of_damage, 3),
    ("altered answers", forgery.adopt_any_epoch_of_an_answer, 1),
    ("answers to nothing", forgery.take_an_answer_for_any_question, 1),
    ("forged questions", forgery.stop_for_a_foreign_question, 1),
    ("forged changes", forgery.add_a_voter_without_an_address, 12),
    ("false leaders", forgery.leave_a_misled_voter_alone, 18),
    ("false leaders", forgery.never_doubt_a_leader_that_is_gone, 14),
)
"""The fault, what only it shows, and a seed that shows it."""


class NotingPatch(pytest.MonkeyPatch):
    """Notes every place that is patched."""

    def __init__(self) -> None:
        super().__init__()
        self.places: set[Place] = set()

    def setattr(self, target: Any, name: Any, *value: Any, raising: bool = True) -> None:
        self.places.add((id(target), name))
        super().setattr(target, name, *value, raising=raising)

    def setitem(self, dic: Any, name: Any, value: Any) -> None:
        self.places.add((id(dic), name))
        super().setitem(dic, name, value)


def places_of(broken: Break) -> set[Place]:
    patch = NotingPatch()
    broken(patch)
    patch.undo()
    return patch.places


@dataclass(slots=True)
class Shared:
    """Histories with `kinds` of faults, and what is broken in them at once. No patch may hide another one."""

    kinds: frozenset[str]
    breaks: list[Break] = field(default_factory=list)
    seeds: set[int] = field(default_factory=lambda: set(OTHER_SEEDS))
    places: set[Place] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{len(self.breaks)} breaks with {', '.join(sorted(self.kinds))}"


def shared_histories() -> list[Shared]:
    found: list[Shared] = []
    for fault, broken, seed in CASES:
        others = FAULTS_FOR[broken] - {fault} or HARMLESS
        places = places_of(broken)
        fitting = (each for each in found if each.kinds == others and not each.places & places)
        shared = next(fitting, None)
        if shared is None:
            found.append(shared := Shared(others))
        shared.breaks.append(broken)
        shared.seeds.add(seed)
        shared.places |= places
    return found


@pytest.mark.parametrize(("fault", "broken", "seed"), CASES)
def test_defect_is_detected_with_the_fault(fault: str, broken: Break, seed: int) -> None:
    """By `test_breaks.py`, which plays these breaks with these faults, and fails if nothing is detected."""
    breaks = BreakFiles()
    assert broken in breaks.by_simulation
    assert fault in breaks.faults_for[broken]


def histories_of_both_sets() -> list[pytest.ParameterSet]:
    """In the short set those that hide most breaks at once. The others play as many histories for a break each."""
    found = shared_histories()
    most = max(found, key=lambda each: len(each.breaks))
    return [
        pytest.param(each, marks=pytest.mark.slow if each is most else pytest.mark.long)
        for each in found
    ]


@pytest.mark.parametrize("shared", histories_of_both_sets(), ids=str)
def test_defect_is_not_detected_without_the_fault(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broken in shared.breaks:
        broken(monkeypatch)
    for seed in sorted(shared.seeds):
        result = run_seed(seed, shared.kinds)
        assert not isinstance(result, Failure), f"caught in {shared}: {result}"


def test_every_break_is_in_one_set_of_histories_and_hidden_by_no_other() -> None:
    groups = shared_histories()
    broken = [each for shared in groups for each in shared.breaks]
    assert sorted(map(id, broken)) == sorted(id(each) for _, each, _ in CASES)
    for shared in groups:
        assert sum(len(places_of(each)) for each in shared.breaks) == len(shared.places)
