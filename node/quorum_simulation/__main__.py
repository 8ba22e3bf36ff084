"""`python -m quorum_simulation --seed N` or `--seeds A..B`: run simulated histories."""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from quorum_simulation import summary
from quorum_simulation.ledger import ledger_directory
from quorum_simulation.long_run import LongRun
from quorum_simulation.run import Failure, Report, run_seed, run_seeds
from quorum_simulation.sources import present_sources
from quorum_simulation.story import Outcome

_TELL_EVERY_S = 15.0
_INTERRUPTED = 130


def main() -> int:
    """0: all invariants held. 1: some did not (the seed and the command to repeat it are printed). 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m quorum_simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run one seed and print its faults")
    which.add_argument("--seeds", help="a range such as 1..200 (both ends included)")
    parser.add_argument(
        "--faults", default="", metavar="KIND,...", help="with --seed: only these kinds of faults"
    )
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
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return _one(arguments.seed, frozenset(filter(None, arguments.faults.split(","))))
    first, _, last = arguments.seeds.partition("..")
    return _many(int(first), int(last or first), arguments)


def _one(seed: int, only: frozenset[str]) -> int:
    started = time.perf_counter()
    result = run_seed(seed, only)
    if isinstance(result, Failure):
        print(result)
        return 1
    print("\n".join(result.history))
    print(
        f"seed {seed}: {result.initial_voters} initial voters, {result.writes} writes,"
        f" {result.reads.total()} reads ({_by_role(result.reads)}), {result.changes} voter changes, {result.faults} faults,"
        f" {result.epochs} epochs, {result.events} events,"
        f" {result.simulated_ms / 1000:.1f} s simulated, calm after {result.calm_ms:.0f} ms,"
        f" {time.perf_counter() - started:.2f} s real: all invariants held"
    )
    return 0


def _many(first: int, last: int, arguments: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.perf_counter()
    seeds = range(first, last + 1)
    limit_s = arguments.minutes * 60
    if arguments.write is None:
        failures = 3 if arguments.failures is None else arguments.failures
        progress = _Progress(len(seeds))
        report = run_seeds(seeds, arguments.jobs, failures, progress.played, limit_s)
    else:
        report = _written(seeds, arguments, limit_s)
    for (kind, phase), count in sorted(report.struck.items()):
        print(f"{kind:18} {phase:12} {count:6}")
    writes = sum(outcome.writes for outcome in report.outcomes)
    reads = sum((outcome.reads for outcome in report.outcomes), Counter[str]())
    changes = sum(outcome.changes for outcome in report.outcomes)
    snapshots = sum((outcome.snapshots for outcome in report.outcomes), Counter())
    for what, count in sorted(snapshots.items()):
        print(f"snapshots {what:28} {count:8}")
    recovery = sum((outcome.recovery for outcome in report.outcomes), Counter[str]())
    for what, count in sorted(recovery.items()):
        print(f"recovery: {what:40} {count:6}")
    seconds = time.perf_counter() - started
    print(
        f"{len(report.outcomes)} histories held, {len(report.failures)} failed; {writes} writes,"
        f" {reads.total()} reads ({_by_role(reads)}), {changes} voter changes, {report.struck.total()} faults in {seconds:.1f} s"
    )
    if report.interrupted:
        return _INTERRUPTED
    return 1 if report.failures else 0


def _written(seeds: range, arguments: argparse.Namespace, limit_s: float) -> Report:
    """Run the histories that are not stored yet, store them, and write the numbers of all into the document."""
    long_run = LongRun(seeds, present_sources(), None if arguments.afresh else ledger_directory())
    if long_run.finished:
        print(f"{len(long_run.finished)} of {len(seeds)} histories are in {long_run.file}")
    progress = _Progress(len(long_run.left))

    def played(result: Outcome | Failure) -> None:
        long_run.played(result)
        progress.played(result)

    failures = float("inf") if arguments.failures is None else arguments.failures
    report = run_seeds(long_run.left, arguments.jobs, failures, played, limit_s)
    summary.write(arguments.write, summary.markdown(long_run.summed_up(report)))
    return Report(long_run.finished, report.failures, report.interrupted)


def _by_role(reads: Counter[str]) -> str:
    return ", ".join(f"{count} on {role}s" for role, count in sorted(reads.items()))


class _Progress:
    """Prints failures at once, and the progress periodically, to stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = self._failed = 0
        self._started = self._told = time.monotonic()

    def played(self, result: Outcome | Failure) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
