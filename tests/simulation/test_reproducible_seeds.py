"""A seed gives the same history in every process, for any string hash seed."""

import os
import subprocess
import sys

import pytest

SEEDS = (20, 23)
"""A short one, and one that begins with a static quorum whose links are cut one way: that went by the order of a set."""
_PLAY = """
import sys
from quorum_simulation.run import Failure, run_seed
for seed in map(int, sys.argv[1:]):
    outcome = run_seed(seed)
    assert not isinstance(outcome, Failure), outcome
    outcome.cpu_s = 0.0
    print(outcome)
"""


def _played(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", _PLAY, *map(str, SEEDS)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_seed_gives_the_same_history_in_two_processes() -> None:
    assert _played("1") == _played("2")
