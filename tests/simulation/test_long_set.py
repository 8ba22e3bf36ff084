"""More than ten thousand histories, in parts: a class each, because workers share out classes (loadscope)."""

from typing import ClassVar

import pytest

from quorum_simulation.run import run_seeds
from support.simulated_set import check

FIRST_SEED = 10_001
PARTS = 20
PART_SEEDS = 510


class Part:
    """One process: the other parts are on the other workers."""

    seeds: ClassVar[range]

    @pytest.mark.long
    @pytest.mark.timeout(3600)
    def test_all_histories_of_the_long_set_hold(self) -> None:
        check(run_seeds(self.seeds, processes=1), self.seeds)


for _part in range(PARTS):
    _first = FIRST_SEED + _part * PART_SEEDS
    _name = f"TestSeedsFrom{_first}"
    globals()[_name] = type(_name, (Part,), {"seeds": range(_first, _first + PART_SEEDS)})


def test_parts_have_ten_thousand_different_seeds() -> None:
    parts = [each for name, each in globals().items() if name.startswith("TestSeedsFrom")]
    seeds = [seed for part in parts for seed in part.seeds]
    assert len(seeds) == len(set(seeds)) >= 10_000
