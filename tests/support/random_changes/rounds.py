"""Plays many rounds, one after the other, each in its own namespace; rounds that have passed on this source tree are skipped."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from support.kind_env import diagnostics
from support.kind_env.environment import KindEnv
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import REPOSITORY, state_directory
from support.random_changes.act import Act
from support.random_changes.drawing import draw
from support.random_changes.running import run_round
from support.requirement_inputs import Inputs
from support.seeded_rounds import Found, PassedRound, PassedRounds, RoundFailed, Say, play_rounds

TREE = (
    "node/quorum_node",
    "operator/quorum_operator",
    "crds",
    "helm",
    "tests/support/random_changes",
    "tests/support/seeded_rounds.py",
)
"""The code that runs in a round, and the code that evaluates it."""


def ledger(root: Path = REPOSITORY) -> PassedRounds:
    """The passed rounds of this checkout."""
    path = root / "docs" / "evidence" / "random-changes.json"
    return PassedRounds(path, Inputs(root).under(*TREE).inputs)


def rounds(
    ready: OperatorCluster,
    seeds: Iterable[int],
    acts: Sequence[Act],
    kept: PassedRounds | None,
    say: Say,
    *,
    seconds: float = float("inf"),
) -> Found:
    """See `play_rounds`."""
    return play_rounds(
        seeds, lambda seed: _played(ready, seed, acts, say), kept, say, seconds=seconds
    )


def _played(ready: OperatorCluster, seed: int, acts: Sequence[Act], say: Say) -> PassedRound:
    plan = draw(seed, acts)
    say(str(plan))
    folder = state_directory() / "anything" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    env = KindEnv(ready, f"anything-{seed}", number=seed, folder=folder)
    env.prepare()
    try:
        return run_round(env, plan, say)
    except RoundFailed as failure:
        say(f"seed {seed}: FAILED\n{failure}")
        collected = diagnostics.collect(env.namespace, ready.kubeconfig, env.quorum)
        say(f"seed {seed}: diagnostics in {collected}")
        raise
    finally:
        env.remove()
