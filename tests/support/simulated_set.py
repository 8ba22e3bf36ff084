"""Coverage that a set of simulated histories must reach, besides the invariants: enough of every event."""

from collections import Counter
from collections.abc import Sequence

from quorum_simulation.run import Report, struck_in
from quorum_simulation.second_partition import WANTED_WRITES as SECOND_PARTITION_WRITES
from quorum_simulation.story import (
    SIZES,
    WANTED_CHANGES,
    WANTED_FAULTS,
    WANTED_WRITES,
    Outcome,
    Story,
)

SNAPSHOT_EVENTS = (
    "downloaded",
    "installed",
    "rejected",
    "resumed after restart",
    "resumed elsewhere",
)
MANY = 500
"""Number of histories in which every kind of fault occurs in every phase."""
ROWS = (
    "K595-06",
    "K595-07",
    "K595-10",
    "K595-13",
    "K595-31",
    "K650-01",
    "K650-03",
    "K853-02",
    "K853-05",
    "K853-06",
    "K853-08",
)
"""The requirements that the short set shows."""


def check(report: Report[Outcome], seeds: Sequence[int]) -> None:
    assert not report.failures, "\n\n".join(str(failure) for failure in report.failures)
    assert len(report.outcomes) == len(seeds)
    for outcome in report.outcomes:
        assert outcome.writes >= WANTED_WRITES, outcome.seed
        assert outcome.faults >= WANTED_FAULTS, outcome.seed
        assert outcome.changes >= WANTED_CHANGES, outcome.seed
    check_faults(report, everywhere=len(seeds) >= MANY)
    assert {outcome.initial_voters for outcome in report.outcomes} == set(SIZES)
    two = [outcome for outcome in report.outcomes if outcome.partitions == 2]
    assert len(two) > len(seeds) / 20, "too few histories with two partitions"
    assert min(outcome.second_writes for outcome in two) >= SECOND_PARTITION_WRITES
    assert min(outcome.reads.total() for outcome in report.outcomes) > 0
    reads = sum((outcome.reads for outcome in report.outcomes), Counter[str]())
    assert set(reads) == {"leader", "follower", "observer"}
    assert min(reads.values()) > len(seeds) / 2, reads
    check_snapshots(report)


def check_faults(report: Report[Outcome], *, everywhere: bool) -> None:
    """Every kind of fault occurred; in a large set, in every phase in which it can."""
    kinds = Story(1).faults.all_kinds
    struck = struck_in(report.outcomes)
    hits = {(kind.name, phase): struck[kind.name, phase] for kind in kinds for phase in kind.phases}
    never = [
        kind.name for kind in kinds if not any(hits[kind.name, phase] for phase in kind.phases)
    ]
    assert not never, f"kinds of faults that had no effect: {never}"
    missing = [hit for hit, count in hits.items() if not count]
    assert not (everywhere and missing), f"no fault had an effect on: {missing}"


def check_snapshots(report: Report[Outcome]) -> None:
    """Every outcome of a snapshot occurred in more than one history."""
    outcomes = [each for each in report.outcomes if not each.controlled]
    for outcome in outcomes:
        assert outcome.snapshots["written"] > 0, outcome.seed
    # A short history with many failures may keep its whole log.
    whole = [each.seed for each in outcomes if not each.snapshots["prefix deleted"]]
    assert len(whole) <= len(outcomes) / 20, whole
    for what in SNAPSHOT_EVENTS:
        histories = sum(outcome.snapshots[what] > 0 for outcome in outcomes)
        # There are many kinds of faults: a short set need not contain each rare event.
        assert histories > 1 or len(report.outcomes) < MANY, f"{what}: {histories} histories"
