"""Plays many rounds, one after the other; rounds that have passed on this source tree are skipped."""

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from support.kind_env.testbed import REPOSITORY
from support.random_faults.plan import draw
from support.random_faults.running import run_round
from support.requirement_inputs import Inputs
from support.seeded_rounds import Found, PassedRound, PassedRounds, RoundFailed, Say, play_rounds

TREE = ("node/quorum_node", "tests/support/random_faults", "tests/support/seeded_rounds.py")
"""The code that runs in a round, and the code that evaluates it."""


def ledger(root: Path = REPOSITORY) -> PassedRounds:
    """The passed rounds of this checkout."""
    path = root / "docs" / "evidence" / "random-faults.json"
    return PassedRounds(path, Inputs(root).under(*TREE).inputs)


def rounds(
    seeds: Iterable[int], kept: PassedRounds | None, say: Say, *, seconds: float = float("inf")
) -> Found:
    """See `play_rounds`."""
    return play_rounds(seeds, lambda seed: _played(seed, say), kept, say, seconds=seconds)


def _played(seed: int, say: Say) -> PassedRound:
    """In a folder of its own, which is kept if the round fails. Raises AssertionError."""
    plan = draw(seed)
    say(str(plan))
    root = Path(tempfile.mkdtemp(prefix=f"random-faults-{seed}-"))
    try:
        passed = run_round(plan, root, say)
    except RoundFailed as failure:
        say(f"seed {seed}: FAILED\n{failure}")
        raise
    shutil.rmtree(root, ignore_errors=True)
    return passed
