"""The replica lists of a reassignment: from AR to RAR, back, and over again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.controller.reassignment import Ended, Move, Reverted, begin, end, revert

SETTLED = Move((1, 2, 3))
BROKERS = st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(tuple)


@pytest.mark.requirement("KV3-04")
def test_removed_replicas_stay_until_all_new_ones_are_in_sync() -> None:
    move, isr = begin(SETTLED, (1, 2, 3), (4, 5, 1))
    assert move == Move((4, 5, 1, 2, 3), removing=(2, 3), adding=(4, 5))
    assert isr == (1, 2, 3)
    assert end(move, (1, 2, 3, 4)) is None
    assert end(move, (3, 4, 5)) is None
    assert end(move, (1, 2, 3, 4, 5)) == Ended((4, 5, 1), (1, 4, 5))


def test_reordered_replicas_are_no_reassignment() -> None:
    move, _ = begin(SETTLED, (1, 2, 3), (3, 1, 2))
    assert not move.is_moving
    assert move.replicas == (3, 1, 2)


def test_replica_removed_without_additions_leaves_when_the_others_are_in_sync() -> None:
    move, isr = begin(SETTLED, (1, 3), (1, 2))
    assert end(move, isr) is None
    assert end(move, (1, 2)) == Ended((1, 2), (1, 2))


@pytest.mark.requirement("KV3-04")
def test_cancelled_reassignment_reverts_also_after_it_was_replaced() -> None:
    first, isr = begin(SETTLED, (1, 2, 3), (4, 5, 6))
    second, isr = begin(first, (*isr, 4), (1, 2, 7))
    assert second == Move((1, 2, 7, 3), removing=(3,), adding=(7,))
    assert isr == (1, 2, 3), "4 is in no target any more"
    assert revert(second, isr) == Reverted((1, 2, 3), (1, 2, 3), unclean=False)


def test_replaced_reassignment_keeps_the_only_in_sync_replicas() -> None:
    first, _ = begin(SETTLED, (1, 2, 3), (4, 5))
    second, isr = begin(first, (4,), (1, 2, 7))
    assert isr == (4,)
    assert second.removing == (3, 4, 5)


def test_cancellation_without_an_in_sync_original_replica_is_unclean() -> None:
    move, _ = begin(SETTLED, (1, 2, 3), (4, 5))
    assert revert(move, (4, 5)) == Reverted((1, 2, 3), (1,), unclean=True)


@pytest.mark.requirement("KV3-04")
@given(current=BROKERS, targets=st.lists(BROKERS, min_size=1, max_size=4), data=st.data())
def test_any_chain_of_reassignments_ends_at_the_last_target_or_the_original_replicas(
    current: tuple[int, ...], targets: list[tuple[int, ...]], data: st.DataObject
) -> None:
    """As long as one of the original replicas stays in sync."""
    move, isr = Move(current), current
    for target in targets:
        grown = data.draw(st.sets(st.sampled_from(move.replicas)))
        isr = tuple(sorted(grown | {current[0]}))
        move, isr = begin(move, isr, target)
        assert set(isr) <= set(move.replicas)
        assert len(set(move.replicas)) == len(move.replicas)
        assert set(move.original) == set(current)
        assert not set(move.adding) & set(move.removing)
    assert not move.is_moving or end(move, move.replicas) is not None
    ended = end(move, move.replicas)
    if ended is not None:
        assert ended.replicas == targets[-1] == tuple(r for r in move.replicas if r in targets[-1])
        assert set(ended.isr) == set(targets[-1])
    reverted = revert(move, isr)
    assert set(reverted.replicas) == set(current)
    assert set(reverted.isr) <= set(current)
