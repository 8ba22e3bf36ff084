"""Reads every acknowledged record from the log of every given replica and prints the result.

`python -m support.workload.verify --acknowledgements FILE --reads FILE --replica http://host:port
...`. Exit status 0 only when nothing was lost, read stale, invented or changed by two voters at once.
"""

import argparse
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from support.workload import history
from support.workload.evaluation import Verdict, judge
from support.workload.replica_log import Fetch, read_replica_log

_TIMEOUT_S = 30.0
_SHOWN = 20


def http_fetch(base_url: str) -> Fetch:
    """GET over plain HTTP."""

    def fetch(path: str) -> dict[str, Any]:
        with urllib.request.urlopen(base_url + path, timeout=_TIMEOUT_S) as response:
            document: dict[str, Any] = json.load(response)
            return document

    return fetch


def verify(acknowledgements: Path, reads: Path, replicas: dict[str, Fetch]) -> Verdict:
    """Read all logs, then check."""
    logs = [read_replica_log(name, fetch) for name, fetch in replicas.items()]
    return judge(history.load(acknowledgements), history.load(reads), logs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acknowledgements", type=Path, required=True)
    parser.add_argument("--reads", type=Path, required=True)
    parser.add_argument("--replica", action="append", required=True, help="base URL, repeated")
    arguments = parser.parse_args()
    verdict = verify(
        arguments.acknowledgements,
        arguments.reads,
        {url: http_fetch(url) for url in arguments.replica},
    )
    print(
        f"{verdict.acknowledged} records acknowledged, {len(verdict.lost)} lost; "
        f"{verdict.reads} reads, {len(verdict.stale)} stale; "
        f"{verdict.voter_changes} voter changes, {len(verdict.double_steps)} double"
    )
    for problem in verdict.problems[:_SHOWN]:
        print(problem)
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(main())
