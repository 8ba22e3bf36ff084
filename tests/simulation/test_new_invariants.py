"""Violations by storage, pre-votes and the controller are detected by the fault and the invariant for them, and by no others.

Left out: a vote whose name is not durable is detected at once, as the invariant reads the disk; and where full disks
count as failed, the quorum does not come to rest either.
"""

import pytest

from quorum_simulation import story
from quorum_simulation.invariants.corruption_is_reported import CorruptionIsReported
from quorum_simulation.invariants.epochs_need_a_reason import EpochsNeedAReason
from quorum_simulation.invariants.every import INVARIANTS
from quorum_simulation.invariants.gone_copies_do_not_count import GoneCopiesDoNotCount
from quorum_simulation.invariants.healthy_disks_are_kept import HealthyDisksAreKept
from quorum_simulation.invariants.invariant import Invariant
from quorum_simulation.invariants.pending_is_replayed import PendingIsReplayed
from quorum_simulation.run import Failure, run_seed
from support.break_table import SIMULATION, load

HARMLESS = frozenset({"kill", "slow disk"})
"""Kinds of faults that none of these breaks is about."""
SEEDS = (*range(1, 15), 44, 89, 96)


breaks = load(SIMULATION / "storage_breaks.py")
controller = load(SIMULATION / "controller_breaks.py")
FAULTS_FOR = breaks.FAULTS_FOR | controller.FAULTS_FOR


def _play(seed: int, kinds: frozenset[str], without: type[Invariant] | None) -> Failure | None:
    with pytest.MonkeyPatch.context() as patch:
        kept = tuple(each for each in INVARIANTS if each is not without)
        patch.setattr(story, "INVARIANTS", kept)
        result = run_seed(seed, kinds)
    return result if isinstance(result, Failure) else None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "invariant"),
    [
        pytest.param(
            breaks.grant_any_pre_vote,
            EpochsNeedAReason,
            marks=pytest.mark.requirement("K650-01"),
        ),
        (controller.keep_what_was_not_committed, PendingIsReplayed),
        (controller.ignore_appends_of_others, PendingIsReplayed),
        pytest.param(breaks.count_a_lost_copy, GoneCopiesDoNotCount, marks=pytest.mark.long),
        pytest.param(breaks.read_no_segment_again, CorruptionIsReported, marks=pytest.mark.long),
        pytest.param(breaks.trust_quorum_state, CorruptionIsReported, marks=pytest.mark.long),
        pytest.param(
            breaks.take_an_unsynced_end_for_damage, HealthyDisksAreKept, marks=pytest.mark.long
        ),
    ],
)
def test_same_history_holds_without_the_invariant(
    broken: object, invariant: type[Invariant], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(broken)
    broken(monkeypatch)
    kinds = FAULTS_FOR[broken]
    for seed in SEEDS:
        if _play(seed, kinds, without=None) is not None and not _play(seed, kinds, invariant):
            return
    pytest.fail(f"{len(SEEDS)} histories held, or something else caught it as well")


@pytest.mark.long
@pytest.mark.parametrize(
    "broken",
    [each for each in breaks.BY_SIMULATION if each is not breaks.vote_before_the_name_is_durable],
)
def test_invariant_holds_without_the_fault(broken: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(broken)
    broken(monkeypatch)
    assert _play(SEEDS[0], HARMLESS, without=None) is None
