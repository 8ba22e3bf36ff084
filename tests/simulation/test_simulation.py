"""Many simulated histories: all invariants hold, and every history has enough of everything."""

import os

import pytest

from quorum_simulation.run import Failure, run_seed, run_seeds
from support.simulated_set import ROWS, check

SHORT = range(1, 46)
"""More than any deliberate break takes to be caught by the kinds of faults that it is about (`test_breaks.py`);
ten thousand others are in the long set."""


@pytest.mark.slow
@pytest.mark.timeout(900)  # it waits only for the processor, which other processes share
@pytest.mark.requirement(*ROWS)
def test_short_set_of_histories_holds() -> None:
    check(run_seeds(SHORT, processes=os.cpu_count() or 1), SHORT)


def test_seed_always_gives_the_same_history() -> None:
    first, second = run_seed(77), run_seed(77)
    assert not isinstance(first, Failure)
    assert first == second


def test_failure_names_its_seed_and_the_replay_command() -> None:
    text = str(Failure(42, "Violation: something", ["   1.0 ms  crash while steady"]))
    assert "seed 42: Violation: something" in text
    assert "python -m quorum_simulation --seed 42" in text
