"""Anything goes: rounds of random acts on the spec and on all that the operator owns, overlapping and under load.

Each round is decided by its seed alone and settles in two minutes (support.random_changes). A failed one prints what
was done and `make random-changes SEEDS=n`, which plays it again.
"""

from collections.abc import Callable

import pytest

from support.kind_env.environment import KindEnv
from support.kind_env.operator_cluster import OperatorCluster
from support.random_changes.catalogue import DRAWN
from support.random_changes.drawing import draw
from support.random_changes.rounds import ledger, rounds
from support.random_changes.running import run_round

_SHORT = (7, 24)
"""All three hundred are in the long set."""
_PARTS, _ROUNDS_EACH = 12, 25


@pytest.mark.timeout(400)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("seed", _SHORT)
def test_quorum_converges_after_random_concurrent_changes(env: KindEnv, seed: int) -> None:
    run_round(env, draw(seed, DRAWN), print)


@pytest.mark.long
@pytest.mark.requirement("OP-03")
@pytest.mark.timeout(_ROUNDS_EACH * 500)
@pytest.mark.parametrize("part", range(1, _PARTS + 1))
def test_quorum_converges_in_three_hundred_random_rounds(
    ready_cluster: OperatorCluster, record_property: Callable[[str, object], None], part: int
) -> None:
    """Rounds that were passed on this very tree are not played again, so that a run can be resumed."""
    first = (part - 1) * _ROUNDS_EACH + 1
    found = rounds(ready_cluster, range(first, first + _ROUNDS_EACH), DRAWN, ledger(), print)
    found.record(record_property)
    assert not found.failures, "\n\n".join(found.failures)
    assert len(found.passed) == _ROUNDS_EACH
