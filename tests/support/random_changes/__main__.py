"""`python -m support.random_changes 7 12..20`: plays rounds on the kind cluster, and reports the result of each.

`--acts a,b` draws from these actions only; `--again` also plays rounds that have passed on this tree.
"""

import argparse
import sys

from support.kind_env import operator_cluster
from support.random_changes.catalogue import DRAWN, named
from support.random_changes.passed_rounds import ledger
from support.random_changes.rounds import rounds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", metavar="SEED", help="7, or 7..20")
    parser.add_argument("--acts", default="", help="of these alone, by name")
    parser.add_argument("--again", action="store_true", help="also what was passed before")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new round later")
    options = parser.parse_args()
    acts = [named(each) for each in options.acts.split(",")] if options.acts else list(DRAWN)
    ready = operator_cluster.bring_up()
    _, operator_image = operator_cluster.load_images(ready)
    operator_cluster.install_operator(ready, operator_image)
    kept = None if options.acts or options.again else ledger()
    try:
        found = rounds(ready, seeds_of(options.seeds), acts, kept, say, seconds=options.seconds)
    finally:
        ready.api.close()
    say(f"{len(found.passed)} rounds passed, {len(found.failures)} failed")
    return 1 if found.failures else 0


def seeds_of(words: list[str]) -> list[int]:
    """`7 12..14` are 7, 12, 13 and 14."""
    found: list[int] = []
    for word in words:
        first, _, last = word.partition("..")
        found += range(int(first), int(last or first) + 1)
    return found


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
