"""The tests detect defects: each deliberate break of the code fails a test (see *breaks*.py).

A break is detected by an invariant of the simulation, by a transcript that differs, or by a unit
test that fails. docs/evidence/breaks.md has the table of all; `tests/tidy` compares it with the code.
"""

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from quorum_simulation.run import Failure, run_seed
from support.break_table import ROOT, BreakFiles, load
from support.raft.transcript import Transcript

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SEEDS = range(1, 41)
CAUGHT = ("Violation", "AssertionError", "Spinning", "CorruptBatch")
"""How the problem of a history begins that the simulation stopped; CorruptBatch: what a replica wrote can't be read."""
TRIED_FIRST = {
    "accept_a_uuid_change_in_one_record": 2,
    "add_a_voter_without_an_address": 12,
    "adopt_any_epoch_of_an_answer": 20,
    "believe_a_report_of_damage": 3,
    "campaign_as_a_witness": 13,
    "campaign_without_a_pre_vote": 15,
    "change_before_the_last_is_committed": 29,
    "commit_an_old_epoch": 3,
    "count_a_lost_copy": 44,
    "count_recent_fetches_only": 12,
    "drop_the_target_at_the_first_step": 32,
    "give_a_read_offset_without_the_round": 3,
    "grant_any_pre_vote": 89,
    "ignore_divergence": 3,
    "ignore_the_log_in_votes": 13,
    "keep_truncated_voters": 9,
    "leave_a_misled_voter_alone": 17,
    "never_doubt_a_leader_that_is_gone": 14,
    "read_by_a_lease": 13,
    "recover_in_the_next_epoch": 15,
    "serve_after_a_storage_failure": 7,
    "step_before_the_last_is_committed": 31,
    "stop_for_a_foreign_question": 2,
    "take_an_answer_for_any_question": 34,
    "take_any_epoch": 2,
    "time_by_the_time_of_day": 32,
    "truncate_below_the_snapshot": 3,
    "trust_unread_control_batches": 28,
}
"""What catches rare ones at once and soonest, as the stories are now; when they change, the others are tried, which may take
20 s of processor time."""
breaks = BreakFiles()


def ids(broken: object) -> str | None:
    return getattr(broken, "__name__", None) or str(broken).rpartition("::")[2]


@pytest.mark.slow
@pytest.mark.parametrize("broken", breaks.by_simulation, ids=ids)
def test_simulation_detects_the_defect(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(broken)
    broken(monkeypatch)
    first = TRIED_FIRST.get(getattr(broken, "__name__", ""), SEEDS[0])
    for seed in dict.fromkeys((first, *SEEDS)):
        result = run_seed(seed, breaks.faults_for.get(broken, frozenset()))
        if isinstance(result, Failure):
            assert result.problem.startswith(CAUGHT), result
            return
    pytest.fail(f"{len(SEEDS)} histories went well with broken code")


@pytest.mark.parametrize(("broken", "scenario"), breaks.by_scenario, ids=ids)
def test_scenario_detects_the_defect(
    broken: object, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = (SCENARIOS / f"{scenario}.txt").read_text()
    assert Transcript().play(written) == written
    assert callable(broken)
    broken(monkeypatch)
    try:
        played = Transcript().play(written)
    except AssertionError:
        return  # detected by the core itself
    assert played != written


def run_to_its_end(test: Callable[[], object]) -> None:
    """Coroutines run in a loop of their own, as pytest runs them here."""
    result = test()
    if inspect.iscoroutine(result):
        asyncio.run(result)


@pytest.mark.parametrize(("broken", "place"), breaks.by_test, ids=ids)
def test_unit_test_detects_the_defect(
    broken: object, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test is called unchanged: it passes without the defect, and fails with it."""
    path, _, name = place.partition("::")
    test = getattr(load(ROOT / path), name)
    run_to_its_end(test)
    assert callable(broken)
    broken(monkeypatch)
    with pytest.raises(BaseException) as caught:
        run_to_its_end(test)
    assert isinstance(caught.value, Exception | pytest.fail.Exception)
