"""`python -m quorum_simulation --seed N` or `--seeds A..B`: run simulated histories."""

import argparse
import signal
import sys
import time
from collections import Counter

from quorum_simulation import summary
from quorum_simulation.command_line import (
    INTERRUPTED,
    Progress,
    add_options,
    play_the_rest,
    stored_in,
)
from quorum_simulation.ledger import QUORUMS
from quorum_simulation.long_run import LongRun
from quorum_simulation.run import Failure, Report, run_seed, run_seeds, struck_in
from quorum_simulation.sources import present_sources
from quorum_simulation.story import Outcome


def main() -> int:
    """0: all invariants held. 1: some did not (the seed and the command to repeat it are printed). 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m quorum_simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run one seed and print its faults")
    which.add_argument("--seeds", help="a range such as 1..200 (both ends included)")
    parser.add_argument(
        "--faults", default="", metavar="KIND,...", help="with --seed: only these kinds of faults"
    )
    add_options(parser)
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
        progress = Progress(len(seeds))
        report = run_seeds(seeds, arguments.jobs, failures, progress.played, limit_s)
    else:
        report = _written(seeds, arguments, limit_s)
    struck = struck_in(report.outcomes)
    for (kind, phase), count in sorted(struck.items()):
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
        f" {reads.total()} reads ({_by_role(reads)}), {changes} voter changes, {struck.total()} faults in {seconds:.1f} s"
    )
    if report.interrupted:
        return INTERRUPTED
    return 1 if report.failures else 0


def _written(seeds: range, arguments: argparse.Namespace, limit_s: float) -> Report[Outcome]:
    """Run the histories that are not stored yet, store them, and write the numbers of all into the document."""
    long_run = LongRun(seeds, present_sources(), stored_in(arguments), QUORUMS)
    report = play_the_rest(long_run, run_seed, arguments, limit_s)
    summary.write(arguments.write, summary.markdown(long_run.summed_up(report)))
    return Report(long_run.finished, report.failures, report.interrupted)


def _by_role(reads: Counter[str]) -> str:
    return ", ".join(f"{count} on {role}s" for role, count in sorted(reads.items()))


if __name__ == "__main__":
    sys.exit(main())
