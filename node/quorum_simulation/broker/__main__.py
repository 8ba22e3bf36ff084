"""`python -m quorum_simulation.broker --seed N` or `--seeds A..B`: run simulated histories of brokers."""

import argparse
import signal
import sys

from quorum_simulation import summary
from quorum_simulation.broker.run import BEGIN, BROKERS, END, markdown, run_seed
from quorum_simulation.broker.world import Outcome
from quorum_simulation.command_line import (
    INTERRUPTED,
    Progress,
    add_options,
    play_the_rest,
    stored_in,
)
from quorum_simulation.long_run import LongRun, Played
from quorum_simulation.run import Failure, Report, run_each
from quorum_simulation.sources import present_sources

_ENTRY = "quorum_simulation.broker.world"


def main() -> int:
    """0: all invariants held. 1: some did not (the seed and the command to repeat it are printed). 130: interrupted."""
    parser = argparse.ArgumentParser(prog="python -m quorum_simulation.broker", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run one seed and print what happened")
    which.add_argument("--seeds", help="a range such as 1..200 (both ends included)")
    add_options(parser)
    arguments = parser.parse_args()
    if arguments.seed is not None:
        result = run_seed(arguments.seed)
        print(result)
        return 1 if isinstance(result, Failure) else 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    first, _, last = arguments.seeds.partition("..")
    report = _many(range(int(first), int(last or first) + 1), arguments)
    if report.interrupted:
        return INTERRUPTED
    return 1 if report.failures else 0


def _many(seeds: range, arguments: argparse.Namespace) -> Report[Outcome]:
    limit_s = arguments.minutes * 60
    if arguments.write is None:
        failures = 3 if arguments.failures is None else arguments.failures
        progress = Progress(len(seeds))
        report: Report[Outcome] = run_each(
            run_seed, seeds, arguments.jobs, failures, progress.played, limit_s
        )
        failed = [each.seed for each in report.failures]
        print(markdown(Played(report.outcomes, failed, seeds, "now")))
        return report
    sources = present_sources(_ENTRY)
    long_run = LongRun(seeds, sources, stored_in(arguments), BROKERS)
    report = play_the_rest(long_run, run_seed, arguments, limit_s)
    text = markdown(long_run.summed_up(report))
    summary.write(arguments.write, text, BEGIN, END)
    print(text)
    return report


if __name__ == "__main__":
    sys.exit(main())
