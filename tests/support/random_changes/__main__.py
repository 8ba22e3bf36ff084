"""`python -m support.random_changes 7 12..20`: plays rounds on the kind cluster, and reports the result of each.

`--acts a,b` draws from these actions only; `--again` also plays rounds that have passed on this tree; `--clusters 3` plays on three
clusters at the same time, each in a process of its own.
"""

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO

from support.kind_env import operator_cluster
from support.random_changes.catalogue import DRAWN, named
from support.random_changes.rounds import ledger, rounds
from support.seeded_rounds import say, seeds_of

_FURTHER_PORTS = range(30_000, 31_000, 100)
"""The first host port of each cluster; above the ports of other tests, below the ephemeral ones."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", metavar="SEED", help="7, or 7..20")
    parser.add_argument("--acts", default="", help="of these alone, by name")
    parser.add_argument("--again", action="store_true", help="also what was passed before")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no new round later")
    parser.add_argument("--clusters", type=int, default=1, help="kind clusters at the same time")
    options = parser.parse_args()
    if options.clusters > 1:
        return on_clusters(options.clusters, seeds_of(options.seeds), options)
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


def on_clusters(count: int, seeds: Sequence[int], options: argparse.Namespace) -> int:
    """Distribute the seeds over that many processes, with one cluster each; returns 1 if any of them failed."""
    # The first cluster builds or finds what all need: images and programs.
    operator_cluster.load_images(operator_cluster.bring_up())
    further = [f"--acts={options.acts}", f"--seconds={options.seconds}"]
    further += ["--again"] if options.again else []
    running = [
        _on_cluster(number, list(map(str, seeds[number::count])), further)
        for number in range(min(count, len(seeds)))
    ]
    for process, printer in running:
        process.wait()
        printer.join()
    return 1 if any(process.returncode for process, _ in running) else 0


def _on_cluster(
    number: int, seeds: Sequence[str], further: Sequence[str]
) -> tuple["subprocess.Popen[str]", threading.Thread]:
    name = operator_cluster.cluster_name() + (f"-{number + 1}" if number else "")
    ports = {"METADATAQUORUM_FIRST_HOST_PORT": str(_FURTHER_PORTS[number])} if number else {}
    process = subprocess.Popen(
        [sys.executable, "-m", "support.random_changes", *seeds, *further],
        env=os.environ | {"METADATAQUORUM_CLUSTER": name, **ports},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    printer = threading.Thread(target=_with_name, args=(name, process.stderr))
    printer.start()
    return process, printer


def _with_name(name: str, lines: IO[str]) -> None:
    for line in lines:
        say(f"{name}: {line.rstrip()}")


if __name__ == "__main__":
    sys.exit(main())
