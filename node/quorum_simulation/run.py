"""Runs seeds: one, or many in several processes.

Owns the way from a range of seeds to a report. Must not know the content of a story.
"""

import gc
import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from quorum_simulation.story import Outcome, Story

COMMAND = "python -m quorum_simulation"
Played = TypeVar("Played")
"""What a history amounts to: of a quorum (`story.Outcome`), or of brokers."""


@dataclass(slots=True)
class Failure:
    """A failed seed, and its history up to the failure. `command`: plays it again."""

    seed: int
    problem: str
    history: list[str]
    command: str = COMMAND

    def __str__(self) -> str:
        happened = "\n".join(self.history)
        return f"seed {self.seed}: {self.problem}\n{happened}\nreplay: {self.command} --seed {self.seed}"


@dataclass(slots=True)
class Report(Generic[Played]):
    """All seeds of a set."""

    outcomes: list[Played] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False


def struck_in(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """Faults by kind and phase over a set of histories."""
    return sum((each.struck for each in outcomes), Counter[tuple[str, str]]())


def run_seed(seed: int, only: frozenset[str] = frozenset()) -> Outcome | Failure:
    """Run one history, optionally with some kinds of faults only.

    A violation, or any other exception, is a failure of the seed.
    """
    started_s = time.process_time()
    with garbage_kept():
        story = Story(seed, only)
        try:
            outcome = story.play()
        except Exception as error:
            return Failure(seed, f"{type(error).__name__}: {error}", story.history)
    outcome.cpu_s = time.process_time() - started_s
    return outcome


@contextmanager
def garbage_kept() -> Iterator[None]:
    """Disable garbage collection: the objects of a history live about as long as it does, and collections cost a
    fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run_seeds(
    seeds: Iterable[int],
    processes: int,
    stop_at_failures: float = 3,
    played: Callable[[Outcome | Failure], None] = lambda result: None,
    limit_s: float = float("inf"),
) -> Report[Outcome]:
    """Run many histories of quorums. See `run_each`."""
    return run_each(run_seed, seeds, processes, stop_at_failures, played, limit_s)


def run_each(
    play: Callable[[int], Played | Failure],
    seeds: Iterable[int],
    processes: int,
    stop_at_failures: float,
    played: Callable[[Played | Failure], None],
    limit_s: float,
) -> Report[Played]:
    """Run many seeds in several processes with `play`, a function of a module; `played` is called with each result.

    Stops early after some failures, at the time limit, or on KeyboardInterrupt; the report then has the results so
    far.
    """
    report: Report[Played] = Report()
    stop_at_s = time.monotonic() + limit_s
    try:
        with _results(play, list(seeds), processes) as results:
            for result in results:
                played(result)
                if _take(report, result) >= stop_at_failures or time.monotonic() > stop_at_s:
                    break
    except KeyboardInterrupt:
        report.interrupted = True
    return report


@contextmanager
def _results(
    play: Callable[[int], Played | Failure], seeds: list[int], processes: int
) -> Iterator[Iterable[Played | Failure]]:
    """Of all seeds, as they come; whatever is still played at the end is given up."""
    if min(processes, len(seeds)) <= 1:
        yield map(play, seeds)
        return
    # A seed gives the same history in every process, also where the order of a set of strings
    # matters.
    os.environ["PYTHONHASHSEED"] = "0"
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _leave_interrupts_to_the_parent) as pool:
        yield pool.imap_unordered(play, seeds)


def _leave_interrupts_to_the_parent() -> None:
    """A terminal interrupts all processes at once; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _take(report: Report[Played], result: Played | Failure) -> int:
    if isinstance(result, Failure):
        report.failures.append(result)
    else:
        report.outcomes.append(result)
    return len(report.failures)
