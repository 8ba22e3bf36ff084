"""The common parts of the command lines of the simulations of quorums and of brokers.

Owns their options, the progress on stderr, and running only histories that are not stored. Must not know the content of
a history.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from quorum_simulation.ledger import Finished, ledger_directory
from quorum_simulation.long_run import LongRun
from quorum_simulation.run import Failure, Report, run_each

INTERRUPTED = 130
_TELL_EVERY_S = 15.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a run of many histories."""
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="with --seeds: number of parallel processes",
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="with --seeds: time limit"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="with --seeds: write the numbers into this document. Finished histories are stored and not run again until the code or the interpreter changes; failures do not end the run",
    )
    parser.add_argument(
        "--afresh",
        action="store_true",
        help="with --write: run all histories again, and store none",
    )
    parser.add_argument(
        "--failures",
        type=float,
        metavar="N",
        help="with --seeds: stop after so many failed histories (default 3; with --write: no limit)",
    )


def stored_in(arguments: argparse.Namespace) -> Path | None:
    """Directory of the stored histories; None to neither read nor store any."""
    return None if arguments.afresh else ledger_directory()


def play_the_rest(
    long_run: LongRun[Finished],
    play: Callable[[int], Finished | Failure],
    arguments: argparse.Namespace,
    limit_s: float,
) -> Report[Finished]:
    """Run and store the histories that are not stored yet; the report covers only these."""
    finished = len(long_run.finished)
    if finished:
        print(f"{finished} of {finished + len(long_run.left)} histories are in {long_run.file}")
    progress = Progress(len(long_run.left))

    def played(result: Finished | Failure) -> None:
        long_run.played(result)
        progress.played(result)

    failures = float("inf") if arguments.failures is None else arguments.failures
    return run_each(play, long_run.left, arguments.jobs, failures, played, limit_s)


class Progress:
    """Prints failures at once, and the progress periodically, to stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = self._failed = 0
        self._started = self._told = time.monotonic()

    def played(self, result: object) -> None:
        """One more history: its outcome, or a failure."""
        self._done += 1
        if isinstance(result, Failure):
            self._failed += 1
            print(result, end="\n\n", flush=True)
        now = time.monotonic()
        if now - self._told >= _TELL_EVERY_S or self._done == self._total:
            self._told = now
            left_s = (now - self._started) / self._done * (self._total - self._done)
            print(
                f"{self._done} of {self._total} histories, {self._failed} failed;"
                f" {left_s / 60:.0f} minutes left at this pace",
                file=sys.stderr,
                flush=True,
            )
