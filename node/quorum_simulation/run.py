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

from quorum_simulation.story import Outcome, Story

REPLAY = "python -m quorum_simulation --seed {seed}"


@dataclass(slots=True)
class Failure:
    """A failed seed, and its history up to the failure."""

    seed: int
    problem: str
    history: list[str]

    def __str__(self) -> str:
        happened = "\n".join(self.history)
        replay = REPLAY.format(seed=self.seed)
        return f"seed {self.seed}: {self.problem}\n{happened}\nreplay: {replay}"


@dataclass(slots=True)
class Report:
    """All seeds of a set."""

    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    @property
    def struck(self) -> Counter[tuple[str, str]]:
        """Faults by kind and phase over the whole set."""
        total: Counter[tuple[str, str]] = Counter()
        for outcome in self.outcomes:
            total.update(outcome.struck)
        return total


def run_seed(seed: int, only: frozenset[str] = frozenset()) -> Outcome | Failure:
    """Run one history, optionally with some kinds of faults only.

    A violation, or any other exception, is a failure of the seed.
    """
    started_s = time.process_time()
    with _garbage_kept():
        story = Story(seed, only)
        try:
            outcome = story.play()
        except Exception as error:
            return Failure(seed, f"{type(error).__name__}: {error}", story.history)
    outcome.cpu_s = time.process_time() - started_s
    return outcome


@contextmanager
def _garbage_kept() -> Iterator[None]:
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
) -> Report:
    """Run many seeds in several processes; `played` is called with each result.

    Stops early after some failures, at the time limit, or on KeyboardInterrupt; the report then has the results so
    far.
    """
    report = Report()
    stop_at_s = time.monotonic() + limit_s
    try:
        with _results(list(seeds), processes) as results:
            for result in results:
                played(result)
                if _take(report, result) >= stop_at_failures or time.monotonic() > stop_at_s:
                    break
    except KeyboardInterrupt:
        report.interrupted = True
    return report


@contextmanager
def _results(seeds: list[int], processes: int) -> Iterator[Iterable[Outcome | Failure]]:
    """Of all seeds, as they come; whatever is still played at the end is given up."""
    if min(processes, len(seeds)) <= 1:
        yield map(run_seed, seeds)
        return
    # A seed gives the same history in every process, also where the order of a set of strings
    # matters.
    os.environ["PYTHONHASHSEED"] = "0"
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _leave_interrupts_to_the_parent) as pool:
        yield pool.imap_unordered(run_seed, seeds)


def _leave_interrupts_to_the_parent() -> None:
    """A terminal interrupts all processes at once; the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _take(report: Report, result: Outcome | Failure) -> int:
    if isinstance(result, Failure):
        report.failures.append(result)
    else:
        report.outcomes.append(result)
    return len(report.failures)
