"""`python -m support.random_faults 7 12..20`: plays rounds on broker processes, and reports the result of each.

`--again` also plays rounds that have passed on this tree. `--break NAME` inserts a defect into the broker. Needs root: network
namespaces and loop devices.
"""

import argparse
import sys

from support import warm_start
from support.linearizability.network import missing_for_namespaces
from support.loop_disk import missing_for_loop_disks
from support.random_faults.breaks import BREAKS, named, play_broken
from support.random_faults.rounds import ledger, rounds
from support.seeded_rounds import say, seeds_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", metavar="SEED", help="7, or 7..20")
    parser.add_argument("--again", action="store_true", help="also what was passed before")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new round later")
    parser.add_argument("--break", dest="defect", choices=[each.name for each in BREAKS])
    options = parser.parse_args()
    if options.defect is not None:
        return play_broken(named(options.defect), seeds_of(options.seeds))
    if (missing := missing_for_namespaces() or missing_for_loop_disks()) is not None:
        print(f"random faults can't be played: {missing}", file=sys.stderr)
        return 2
    warm_start.install()
    kept = None if options.again else ledger()
    found = rounds(seeds_of(options.seeds), kept, say, seconds=options.seconds)
    say(f"{len(found.passed)} rounds passed, {len(found.failures)} failed")
    return 1 if found.failures else 0


if __name__ == "__main__":
    sys.exit(main())
