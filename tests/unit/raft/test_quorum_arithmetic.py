"""One arithmetic for node and operator: the verdicts of both stay those that each gave by formulas of its own."""

from itertools import product

import pytest

from quorum_node import quorum_arithmetic as arithmetic
from quorum_node.raft import alteration
from quorum_node.records.identity import ReplicaKey
from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner.gates import add_gate, remove_gate
from quorum_operator.planner.observed import Key, QuorumView, ReplicaView
from support.observed_quorum import view_of

SIZES = range(1, 16)


def key(number: int) -> ReplicaKey:
    return ReplicaKey(number)


def situations() -> list[tuple[int, int, bool, int]]:
    """(voters, live ones, whether the one that leaves is live, size of the target): all that can be."""
    return [
        (size, live, leaves_live, target)
        for size, target, leaves_live in product(range(2, 16), SIZES, (False, True))
        for live in range(1 + leaves_live, size + leaves_live)
    ]


# What the node (raft/safety.py, raft/alteration.py) and the operator (planner/gates.py) counted before.
def before_in_the_node(size: int, live: int, live_others: int, target: int) -> bool:
    needed = (size - 1) // 2 + 1
    if live_others < needed:
        return False
    floor = max(0, (target - 1) // 2 - 1)
    return live_others - needed >= min(live - (size // 2 + 1), floor)


def before_in_the_operator(size: int, live: int, live_others: int, target: int) -> bool:
    if live_others < (size - 1) // 2 + 1:
        return False
    before = max(live - (size // 2 + 1), -1)
    after = max(live_others - ((size - 1) // 2 + 1), -1)
    return not (after < before and after < max(0, (target - 1) // 2 - 1))


def test_removal_decisions_are_unchanged() -> None:
    verdicts = set()
    for size, live, leaves_live, target in situations():
        others = live - leaves_live
        now = others >= arithmetic.live_to_remove(size) and not arithmetic.lowers_tolerance(
            size, live, others, target
        )
        assert now == before_in_the_node(size, live, others, target), (size, live, others, target)
        assert now == before_in_the_operator(size, live, others, target)
        verdicts.add(now)
    assert verdicts == {False, True}


def test_addition_decisions_are_unchanged() -> None:
    for size in SIZES:
        for live in range(1, size + 2):
            exempt = size == 1
            assert (live >= arithmetic.live_to_add(size)) == (exempt or live >= (size + 1) // 2 + 1)


def test_witness_counts_are_unchanged() -> None:
    for size in SIZES:
        for witnesses in range(size + 1):
            assert arithmetic.may_have_witnesses(size, witnesses) == (witnesses < size // 2 + 1)


def test_negative_failure_tolerance_is_returned_unclamped() -> None:
    """The status shows 0 for it (`planner/status.py`); no other value distinguishes two missing voters from one."""
    assert [arithmetic.tolerance(size, size) for size in range(1, 8)] == [0, 0, 1, 1, 2, 2, 3]
    assert arithmetic.tolerance(5, 2) == -1
    assert arithmetic.tolerance(5, 1) == -2


def _view(size: int, live: set[int]) -> QuorumView:
    voters = tuple(ReplicaView(Key(n, "u"), n in live, n in live) for n in range(1, size + 1))
    return view_of(voters, leader=Key(1, "u"))


@pytest.mark.parametrize("size", range(2, 10))
def test_node_and_operator_remove_the_same_voters(size: int) -> None:
    """The last voter leaves; the first one leads and is live."""
    voters = tuple(key(n) for n in range(1, size + 1))
    for target, live in product(range(1, 10), range(1, size + 1)):
        for alive in ({*range(1, live + 1)}, {*range(1, live), size}):
            seen = alteration.Situation(
                leader=key(1),
                voters=voters,
                target=tuple(key(n) for n in range(1, target + 1)),
                live=frozenset(key(n) for n in alive | {1}),
            )
            by_node = alteration._unsafe_removal(seen, key(size)) is None
            gate = remove_gate(_view(size, alive | {1}), Key(size, "u"), target)
            assert by_node == (gate is None), (size, target, alive, gate)


@pytest.mark.parametrize("size", range(1, 10))
def test_node_and_operator_require_the_same_number_to_add(size: int) -> None:
    for live in range(1, size + 1):
        gate = add_gate(_view(size, {*range(1, live + 1)}), ReplacementOrder.AUTO, replacing=False)
        seen = alteration.Situation(
            leader=key(1),
            voters=tuple(key(n) for n in range(1, size + 1)),
            target=tuple(key(n) for n in range(1, size + 2)),
            live=frozenset(key(n) for n in range(1, live + 1)),
            observers=(alteration.Observer(key(size + 1), ready=True),),
        )
        added = alteration.next_step(seen) == alteration.Add(key(size + 1))
        assert added == (gate is None), (size, live, gate)
