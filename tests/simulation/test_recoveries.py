"""Recoveries with old voters that return: what is broken there is caught by the invariant that is about it alone."""

import pytest

from quorum_simulation import recovery
from quorum_simulation.invariants.invariant import Invariant
from quorum_simulation.invariants.one_quorum_per_cluster_id import OneQuorumPerClusterId
from quorum_simulation.run import Failure, run_seed
from support.break_table import SIMULATION, load

SEEDS = (2037, *range(120, 140))


breaks = load(SIMULATION / "recovery_breaks.py")
KINDS = breaks.FAULTS_FOR[breaks.recover_in_the_next_epoch]


def _play(seed: int, without: type[Invariant] | None) -> Failure | None:
    with pytest.MonkeyPatch.context() as patch:
        kept = tuple(each for each in recovery.INVARIANTS if each is not without)
        patch.setattr(recovery, "INVARIANTS", kept)
        result = run_seed(seed, KINDS)
    return result if isinstance(result, Failure) else None


@pytest.mark.slow
def test_older_quorum_is_detected_by_the_invariant_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaks.recover_in_the_next_epoch(monkeypatch)
    for seed in SEEDS:
        failed = _play(seed, without=None)
        if failed is not None and _play(seed, OneQuorumPerClusterId) is None:
            return
    pytest.fail("the histories held, or something else caught it as well")


@pytest.mark.slow
def test_history_ends_with_a_recovery() -> None:
    """One in which the break above is caught: with the code as it is all invariants hold."""
    result = run_seed(SEEDS[0], KINDS)
    assert not isinstance(result, Failure), result
    assert result.recovery["recoveries"] == 1
    reported = result.recovery["old voters that follow"] + result.recovery["old voters that halted"]
    assert reported > 0
