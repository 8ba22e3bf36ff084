"""`python -m support.modelled_cluster 7 12..20`: plays rounds on a modelled cluster, and reports the result of each.

`--dense` draws more acts for the same time; `--acts a,b` draws from these actions only; `-v` also prints what was done, as it happens.
"""

import argparse
import sys
import time

from support.modelled_cluster.playing import play_round
from support.random_changes.catalogue import DRAWN, named
from support.random_changes.drawing import USUAL, draw
from support.seeded_rounds import RoundFailed, say, seeds_of

DENSE = (8, 12)
"""Fewest and most acts of a dense round."""
_cpu_s = time.process_time


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", metavar="SEED", help="7, or 7..20")
    parser.add_argument("--acts", default="", help="of these alone, by name")
    parser.add_argument("--dense", action="store_true", help="more acts in the same time")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what was done")
    options = parser.parse_args()
    acts = [named(each) for each in options.acts.split(",")] if options.acts else list(DRAWN)
    failed = 0
    seeds = seeds_of(options.seeds)
    for seed in seeds:
        plan, began = draw(seed, acts, DENSE if options.dense else USUAL), _cpu_s()
        if options.verbose:
            say(str(plan))
        try:
            passed = play_round(plan, say if options.verbose else lambda text: None)
            say(f"seed {seed}: {passed}, {_cpu_s() - began:.1f} s")
        except RoundFailed as failure:
            failed += 1
            say(f"seed {seed}: FAILED\n{failure}")
    say(f"{len(seeds) - failed} rounds passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
