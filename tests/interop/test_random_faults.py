"""Random faults and topic operations on brokers of this software, in half of the rounds with a stock broker among them.

A round is decided by its seed (support.random_faults). A failed one prints what was done and `make random-faults SEEDS=n`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.random_faults.plan import draw
from support.random_faults.rounds import ledger, rounds
from support.random_faults.running import require_machine, run_round

_SHORT = (16,)
"""All are in the long set."""
_PARTS, _ROUNDS_EACH = 12, 10

pytestmark = [pytest.mark.interop, pytest.mark.requirement("KV3-09")]


@pytest.mark.parametrize("seed", _SHORT)
def test_mixed_cluster_loses_nothing_in_random_faults(tmp_path: Path, seed: int) -> None:
    require_machine()
    run_round(draw(seed), tmp_path, print)


@pytest.mark.long
@pytest.mark.timeout(_ROUNDS_EACH * 300)
@pytest.mark.parametrize("part", range(1, _PARTS + 1))
def test_clusters_lose_nothing_in_a_hundred_and_twenty_random_rounds(
    record_property: Callable[[str, object], None], part: int
) -> None:
    """Rounds that were passed on this very tree are not played again, so that a run can be resumed."""
    require_machine()
    first = (part - 1) * _ROUNDS_EACH + 1
    found = rounds(range(first, first + _ROUNDS_EACH), ledger(), print)
    found.record(record_property)
    assert not found.failures, "\n\n".join(found.failures)
    assert len(found.passed) == _ROUNDS_EACH
