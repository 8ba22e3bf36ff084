"""Each fault is needed: code that only it shows to be broken is caught with it, and not in histories without it."""

from collections.abc import Callable

import pytest

from quorum_simulation.run import Failure, run_seed
from support.break_table import SIMULATION, load

HARMLESS = frozenset({"kill", "slow disk"})
"""Instead of no other kinds: a history needs some."""
OTHER_SEEDS = range(1, 6)

storage, world, forgery = (
    load(SIMULATION / f"{name}_breaks.py") for name in ("storage", "world", "forgery")
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "broken", "seed"),
    [
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
    ],
)
def test_defect_is_detected_with_the_fault_only(
    fault: str,
    broken: Callable[[pytest.MonkeyPatch], None],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = next(each for each in (storage, world, forgery) if broken in each.BY_SIMULATION)
    kinds = module.FAULTS_FOR[broken]
    assert fault in kinds
    broken(monkeypatch)
    assert any(_fails(each, kinds) for each in (seed, *OTHER_SEEDS))
    for each in dict.fromkeys((seed, *OTHER_SEEDS)):
        assert not _fails(each, kinds - {fault} or HARMLESS), f"seed {each}: caught without {fault}"


def _fails(seed: int, kinds: frozenset[str]) -> bool:
    return isinstance(run_seed(seed, kinds), Failure)
