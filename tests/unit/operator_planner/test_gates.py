"""The arithmetic of safety, case by case."""

from dataclasses import replace

import pytest

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.gates import add_gate, remove_gate, restart_gate
from quorum_operator.planner.observed import Key, QuorumView, ReplicaView
from support.observed_quorum import view_of

AUTO = ReplacementOrder.AUTO


def view(size: int, dead: int = 0) -> QuorumView:
    """Voters 1…size; the last `dead` of them do not fetch; voter 1 leads."""
    voters = tuple(
        ReplicaView(Key(n, "u"), n <= size - dead, n <= size - dead) for n in range(1, size + 1)
    )
    return view_of(voters, leader=Key(1, "u"))


@pytest.mark.parametrize(
    ("size", "dead", "open_"),
    [
        *[(1, 0, True), (2, 0, True), (3, 0, True), (3, 1, False), (4, 1, True), (5, 1, True)],
        *[(5, 2, False), (6, 2, True), (7, 2, True), (7, 3, False)],
    ],
)
def test_adding_a_voter_counts_the_new_member_as_dead(size: int, dead: int, open_: bool) -> None:
    assert (add_gate(view(size, dead), AUTO, replacing=True) is None) == open_


def test_draft_order_counts_the_new_member_only_for_a_replacement() -> None:
    first = ReplacementOrder.ADD_FIRST
    assert add_gate(view(3, 1), first, replacing=True) is None
    assert add_gate(view(3, 1), first, replacing=False) is not None


@pytest.mark.parametrize(
    ("size", "dead", "leaves", "target", "open_"),
    [
        (3, 1, 3, 3, True),  # the dead one goes
        (3, 1, 2, 3, False),  # a live one would leave one of two
        (4, 0, 4, 3, True),
        (4, 1, 3, 3, True),  # two live of three remain; the tolerance was 0 before
        (5, 0, 5, 3, True),
        (5, 0, 5, 7, False),  # on the way to 7 the tolerance must not fall below 2
        (2, 0, 2, 1, True),
        (1, 0, 1, 1, False),
    ],
)
def test_removal_needs_a_live_majority_afterwards(
    size: int, dead: int, leaves: int, target: int, open_: bool
) -> None:
    assert (remove_gate(view(size, dead), Key(leaves, "u"), target) is None) == open_


@pytest.mark.parametrize(
    "change",
    [{"pending_change": True}, {"voters_committed": False}, {"own_epoch_committed": False}],
)
def test_no_change_while_another_is_in_progress(change: dict[str, bool]) -> None:
    unsettled = replace(view(5), **change)  # type: ignore[arg-type]
    assert add_gate(unsettled, AUTO, replacing=True) is not None
    assert remove_gate(unsettled, Key(5, "u"), 3) is not None
    assert restart_gate(unsettled, Key(5, "u"), 5) is not None


def test_restart_requires_all_voters() -> None:
    assert restart_gate(view(3), Key(2, "u"), 3) is None
    assert restart_gate(view(3, 1), Key(2, "u"), 3) is not None
    assert restart_gate(view(1), Key(1, "u"), 1) is None


@pytest.mark.parametrize(
    ("dead", "wanted", "open_"), [(0, 2, True), (0, 1, False), (0, 3, False), (1, 2, False)]
)
def test_one_of_two_specified_voters_may_restart(dead: int, wanted: int, open_: bool) -> None:
    assert (restart_gate(view(2, dead), Key(2, "u"), wanted) is None) == open_
