"""Plays many rounds, one after the other; rounds that have passed on this source tree are skipped."""

import shutil
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.kind_env.testbed import REPOSITORY
from support.random_changes.passed_rounds import PassedRound, PassedRounds
from support.random_changes.running import Say
from support.random_faults.plan import draw
from support.random_faults.running import run_round
from support.requirement_inputs import Inputs

TREE = ("node/quorum_node", "tests/support/random_faults")
"""The code that runs in a round, and the code that evaluates it."""


@dataclass(slots=True)
class Found:
    """Results: passed rounds by seed, reports of the others, and the number of rounds played in this run."""

    passed: dict[int, PassedRound] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    played: int = 0


def ledger(root: Path = REPOSITORY) -> PassedRounds:
    """The passed rounds of this checkout."""
    path = root / "docs" / "evidence" / "random-faults.json"
    return PassedRounds(path, Inputs(root).under(*TREE).inputs)


def rounds(
    seeds: Iterable[int], kept: PassedRounds | None, say: Say, *, seconds: float = float("inf")
) -> Found:
    """Play the rounds; continues after a failure. `kept`: file of passed rounds. `seconds`: no round starts later."""
    begun, found = time.monotonic(), Found()
    before = kept.passed() if kept is not None else {}
    for seed in seeds:
        if seed in before:
            found.passed[seed] = before[seed]
            continue
        if time.monotonic() - begun > seconds:
            break
        found.played += 1
        try:
            passed = found.passed[seed] = play_one(seed, say)
        except AssertionError as failure:
            say(f"seed {seed}: FAILED\n{failure}")
            found.failures.append(f"seed {seed}: {failure}")
            continue
        if kept is not None:
            kept.add(seed, passed)
    return found


def play_one(seed: int, say: Say) -> PassedRound:
    """In a folder of its own, which is kept if the round fails. Raises AssertionError."""
    plan = draw(seed)
    say(str(plan))
    root = Path(tempfile.mkdtemp(prefix=f"random-faults-{seed}-"))
    passed = run_round(plan, root, say)
    shutil.rmtree(root, ignore_errors=True)
    say(f"seed {seed}: {passed}")
    return passed
