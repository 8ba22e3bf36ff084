"""Random faults and topic operations on real brokers of this software: nothing acknowledged is lost or doubled, and all heals.

A round is decided by its seed (support.random_faults). Rounds in mixed clusters, and the long set, are in tests/interop.
"""

from pathlib import Path

import pytest

from support.random_faults.plan import draw
from support.random_faults.running import require_machine, run_round

_SHORT = (17,)

pytestmark = [pytest.mark.slow, pytest.mark.requirement("KV3-09")]


@pytest.mark.parametrize("seed", _SHORT)
def test_brokers_lose_nothing_in_random_faults(tmp_path: Path, seed: int) -> None:
    require_machine()
    run_round(draw(seed), tmp_path, print)
