"""Many simulated histories: all invariants hold, and every history has enough of everything."""

import os
from collections import Counter

import pytest

from quorum_node.simulation.faults import ONLY_WHILE, PHASES
from quorum_node.simulation.run import Failure, Report, run_seed, run_seeds
from quorum_node.simulation.second_partition import WANTED_WRITES as SECOND_PARTITION_WRITES
from quorum_node.simulation.story import (
    SIZES,
    WANTED_CHANGES,
    WANTED_FAULTS,
    WANTED_WRITES,
    Story,
)

SNAPSHOT_EVENTS = (
    "downloaded",
    "installed",
    "rejected",
    "resumed after restart",
    "resumed elsewhere",
)
SHORT = range(1, 201)
LONG = range(10_001, 12_101)
ROWS = (
    "K595-06",
    "K595-07",
    "K595-10",
    "K595-13",
    "K595-29",
    "K595-31",
    "K650-01",
    "K650-03",
    "K853-02",
    "K853-05",
    "K853-06",
    "K853-08",
)


def check(report: Report, seeds: range) -> None:
    assert not report.failures, "\n\n".join(str(failure) for failure in report.failures)
    assert len(report.outcomes) == len(seeds)
    for outcome in report.outcomes:
        assert outcome.writes >= WANTED_WRITES, outcome.seed
        assert outcome.faults >= WANTED_FAULTS, outcome.seed
        assert outcome.changes >= WANTED_CHANGES, outcome.seed
    kinds = Story(1).faults.kinds
    missing = [
        (kind, phase)
        for kind in kinds
        for phase in ONLY_WHILE.get(kind, PHASES)
        if not report.struck[kind, phase]
    ]
    assert not missing, f"no fault ever struck: {missing}"
    assert {outcome.initial_voters for outcome in report.outcomes} == set(SIZES)
    two = [outcome for outcome in report.outcomes if outcome.partitions == 2]
    assert len(two) > len(seeds) / 20, "too few histories with two partitions"
    assert min(outcome.second_writes for outcome in two) >= SECOND_PARTITION_WRITES
    assert min(outcome.reads.total() for outcome in report.outcomes) > 0
    reads = sum((outcome.reads for outcome in report.outcomes), Counter[str]())
    assert set(reads) == {"leader", "follower", "observer"}
    assert min(reads.values()) > len(seeds) / 2, reads
    check_snapshots(report)


def check_snapshots(report: Report) -> None:
    """Everything that can become of a snapshot became of some, in more than one history."""
    for outcome in report.outcomes:
        assert outcome.snapshots["written"] > 0, outcome.seed
        assert outcome.snapshots["prefix deleted"] > 0, outcome.seed
    for what in SNAPSHOT_EVENTS:
        histories = sum(outcome.snapshots[what] > 0 for outcome in report.outcomes)
        assert histories > 1, f"{what}: {histories} histories"


@pytest.mark.slow
@pytest.mark.requirement(*ROWS)
def test_short_set() -> None:
    check(run_seeds(SHORT, processes=os.cpu_count() or 1), SHORT)


@pytest.mark.long
@pytest.mark.requirement(*ROWS)
@pytest.mark.timeout(3600)
def test_long_set() -> None:
    check(run_seeds(LONG, processes=os.cpu_count() or 1), LONG)


def test_a_seed_always_plays_the_same_history() -> None:
    first, second = run_seed(77), run_seed(77)
    assert not isinstance(first, Failure)
    assert first == second


def test_a_failure_names_its_seed_and_how_to_replay_it() -> None:
    text = str(Failure(42, "Violation: something", ["   1.0 ms  crash while steady"]))
    assert "seed 42: Violation: something" in text
    assert "python -m quorum_node.simulation --seed 42" in text
