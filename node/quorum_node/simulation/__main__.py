"""`python -m quorum_node.simulation --seed N` or `--seeds A..B`: play simulated histories."""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from quorum_node.simulation import summary
from quorum_node.simulation.run import Failure, run_seed, run_seeds
from quorum_node.simulation.story import Outcome

_TELL_EVERY_S = 15.0


def main() -> int:
    """0: all invariants held. 1: some did not (the seed and the way to replay it are printed)."""
    parser = argparse.ArgumentParser(prog="python -m quorum_node.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="one seed, with its history of faults")
    which.add_argument("--seeds", help="a range such as 1..200 (both ends included)")
    parser.add_argument(
        "--faults", default="", metavar="KIND,...", help="with --seed: these kinds of faults only"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="with --seeds: so many at a time"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="with --seeds: no longer than this"
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="with --seeds: put the numbers into this document",
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
    started = time.perf_counter()
    seeds = range(first, last + 1)
    report = run_seeds(
        seeds, arguments.jobs, played=_Progress(len(seeds)).played, limit_s=arguments.minutes * 60
    )
    if arguments.write is not None:
        summary.write(arguments.write, summary.markdown(report, first, _when()))
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
    return 1 if report.failures else 0


def _when() -> str:
    """Date and commit; a plus sign if the files are not those of the commit."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    return f"{today}, commit {described}" if described else today


def _by_role(reads: Counter[str]) -> str:
    return ", ".join(f"{count} on {role}s" for role, count in sorted(reads.items()))


class _Progress:
    """Failures at once, and now and then how far it is, on stderr."""

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
