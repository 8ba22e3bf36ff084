"""Plays many rounds, one after the other, each in its own namespace; rounds that have passed are skipped."""

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from support.kind_env import diagnostics
from support.kind_env.environment import KindEnv
from support.kind_env.operator_cluster import OperatorCluster
from support.kind_env.testbed import TestbedError, state_directory
from support.random_changes.act import Act
from support.random_changes.drawing import draw
from support.random_changes.passed_rounds import PassedRound, PassedRounds
from support.random_changes.running import RoundFailed, Say, run_round


@dataclass(slots=True)
class Found:
    """Results: passed rounds by seed, reports of the others, and the number of rounds played in this run."""

    passed: dict[int, PassedRound] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    played: int = 0


def rounds(
    ready: OperatorCluster,
    seeds: Iterable[int],
    acts: Sequence[Act],
    kept: PassedRounds | None,
    say: Say,
    *,
    seconds: float = float("inf"),
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
            passed = found.passed[seed] = _played(ready, seed, acts, say)
        except (AssertionError, TestbedError) as failure:
            if not isinstance(failure, RoundFailed):
                say(f"seed {seed}: FAILED\n{failure}")
            found.failures.append(f"seed {seed}: {failure}")
            continue
        if kept is not None:
            kept.add(seed, passed)
    return found


def _played(ready: OperatorCluster, seed: int, acts: Sequence[Act], say: Say) -> PassedRound:
    plan = draw(seed, acts)
    say(str(plan))
    folder = state_directory() / "anything" / str(seed)
    shutil.rmtree(folder, ignore_errors=True)
    env = KindEnv(ready, f"anything-{seed}", number=seed, folder=folder)
    env.prepare()
    try:
        passed = run_round(env, plan, say)
    except RoundFailed as failure:
        say(f"seed {seed}: FAILED\n{failure}")
        collected = diagnostics.collect(env.namespace, ready.kubeconfig, env.quorum)
        say(f"seed {seed}: diagnostics in {collected}")
        raise
    finally:
        env.remove()
    say(f"seed {seed}: {passed}")
    return passed
