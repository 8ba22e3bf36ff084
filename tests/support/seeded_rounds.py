"""Rounds that a seed decides: what one reports, the passed ones by seed and source tree, and playing many of them.

With the passed rounds a long run can be resumed, also on another machine. The file is checked in. Several processes may add rounds,
each on its own cluster. Must not know what a round does.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support.envtest.kube_api import Json
from support.kind_env.testbed import REPOSITORY, TestbedError

Say = Callable[[str], None]


class RoundFailed(AssertionError):
    """The message is the report."""


@dataclass(slots=True)
class ActionLog:
    """A record of what was done, with times since the start of the round."""

    say: Say
    begun: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        line = f"[{time.monotonic() - self.begun:6.1f} s] {text}"
        self.lines.append(line)
        self.say(line)


@dataclass(frozen=True, slots=True)
class PassedRound:
    """One round: how long it took to settle, and what was checked."""

    settled_s: float
    acknowledged: int
    answered: tuple[str, ...]


class PassedRounds:
    """A file of the passed rounds of one source tree; each round is written before the next one begins."""

    def __init__(self, path: Path, tree: str) -> None:
        self._path, self._tree = path, tree

    def passed(self) -> dict[int, PassedRound]:
        """Rounds of this very tree, by seed."""
        return {
            int(seed): PassedRound(each["settled_s"], each["acknowledged"], tuple(each["answered"]))
            for seed, each in self._rounds().items()
        }

    def add(self, seed: int, passed: PassedRound) -> None:
        """Add a round. Rounds of another tree are removed: they count no longer."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            found = {**self._rounds(), str(seed): asdict(passed)}
            ordered = {key: found[key] for key in sorted(found, key=int)}
            lines = (f"  {json.dumps(key)}: {json.dumps(each)}" for key, each in ordered.items())
            rounds = "{\n" + ",\n".join(lines) + "\n }"
            fresh = self._path.with_suffix(".new")
            fresh.write_text(f'{{\n "tree": {json.dumps(self._tree)},\n "rounds": {rounds}\n}}\n')
            fresh.replace(self._path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _rounds(self) -> dict[str, Json]:
        try:
            found = json.loads(self._path.read_text())
        except FileNotFoundError:
            return {}
        rounds: dict[str, Json] = found["rounds"] if found["tree"] == self._tree else {}
        return rounds


@dataclass(slots=True)
class Found:
    """Results: passed rounds by seed, reports of the others, and the number of rounds played in this run."""

    passed: dict[int, PassedRound] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    played: int = 0

    def record(self, record_property: Callable[[str, object], None]) -> None:
        """Add the figures to a report of pytest."""
        passed = self.passed.values()
        record_property("rounds", len(passed))
        record_property("played now", self.played)
        if passed:
            record_property("longest s", max(each.settled_s for each in passed))
            record_property("records", sum(each.acknowledged for each in passed))


def play_rounds(
    seeds: Iterable[int],
    play: Callable[[int], PassedRound],
    kept: PassedRounds | None,
    say: Say,
    *,
    seconds: float = float("inf"),
) -> Found:
    """Play the rounds of these seeds; continues after one that raises AssertionError or TestbedError.

    `play` reports a RoundFailed itself, before it cleans up, which may fail as well.
    `kept`: file of passed rounds, which are not played again. `seconds`: no round starts later.
    """
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
            passed = found.passed[seed] = play(seed)
        except (AssertionError, TestbedError) as failure:
            if not isinstance(failure, RoundFailed):
                say(f"seed {seed}: FAILED\n{failure}")
            found.failures.append(f"seed {seed}: {failure}")
            continue
        say(f"seed {seed}: {passed}")
        if kept is not None:
            kept.add(seed, passed)
    return found


def lines_of_another_process(program: str) -> list[str]:
    """What a program prints in a process of its own, in which sets have another order."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(REPOSITORY / "tests"), "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def seeds_of(words: list[str]) -> list[int]:
    """`7 12..14` are 7, 12, 13 and 14."""
    found: list[int] = []
    for word in words:
        first, _, last = word.partition("..")
        found += range(int(first), int(last or first) + 1)
    return found


def say(text: str) -> None:
    """To standard error, at once."""
    print(text, file=sys.stderr, flush=True)
