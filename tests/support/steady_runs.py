"""`make steady`: the short set, again and again beside a process that uses a whole core, and a page with each run.

A run that fails ends it: a failure that a later run hides is a defect. Rows of the same tree are kept, so an interrupted series goes on; after a failure it begins again.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from support.long_run import commit_id, machine
from support.requirement_inputs import Inputs

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "evidence" / "steady-runs.md"
_TREE = ("node", "operator", "pipeline", "tests", "crds", "helm", "manifests", "Makefile")
_SUMMARY = re.compile(rb"\d+ (?:passed|failed|error).* in [\d.]+s.*")
_MOST_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a target of the Makefile. `summary`: the last line of pytest."""

    target: str
    passed: bool
    seconds: float
    began: str
    summary: str

    def row(self) -> str:
        result = "passed" if self.passed else "failed"
        cells = (f"`make {self.target}`", result, f"{self.seconds:.0f}", self.began, self.summary)
        return f"| {' | '.join(cells)} |"


@contextmanager
def busy_core() -> Iterator[subprocess.Popen[bytes]]:
    """Another process computes all the time. It ends with this one, also if that is killed."""
    parent = os.getpid()
    loop = f"import os\nwhile os.getppid() == {parent}:\n    sum(range(1_000_000))"
    process = subprocess.Popen([sys.executable, "-c", loop])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def run(target: str) -> Run:
    """Run a target, with its output on the terminal. A run that takes more than an hour has failed."""
    began, start = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", time.monotonic()
    summary = "it printed no summary"
    command = ["make", "-C", str(_ROOT), target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            if (found := _SUMMARY.search(line)) is not None:
                summary = found.group().decode().strip("= ")
            if time.monotonic() - start > _MOST_SECONDS:
                process.terminate()
                summary = "it took more than an hour"
    return Run(target, process.returncode == 0, time.monotonic() - start, began, summary)


def rows_of(page: Path, tree: str) -> list[str]:
    """The rows of an interrupted series of this tree. None after a failure: "in a row" starts anew."""
    if not page.exists() or f"sources {tree}" not in (text := page.read_text()):
        return []
    rows = [line for line in text.splitlines() if line.startswith("| `make")]
    return rows if all("| passed |" in row for row in rows) else []


def write(page: Path, tree: str, rows: list[str]) -> None:
    passed = sum("| passed |" in row for row in rows)
    head = [
        "# Repeated runs beside a busy core",
        "",
        "Written by `make steady`: the short set without kind, then kind, while another process uses a whole core. A failure ends the series.",
        "",
        f"- {machine()}",
        f"- commit {commit_id(_ROOT)}, sources {tree}",
        f"- {passed} of {len(rows)} passed",
        "",
        "| command | result | seconds | began (UTC) | summary |",
        "|---|---|---|---|---|",
    ]
    page.write_text("\n".join([*head, *rows]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--local", type=int, default=10, help="runs of make test-local")
    parser.add_argument("--kind", type=int, default=3, help="runs of make e2e")
    parser.add_argument("--page", type=Path, default=_PAGE)
    arguments = parser.parse_args()
    tree = Inputs(_ROOT).under(*_TREE).inputs
    rows = rows_of(arguments.page, tree)
    write(arguments.page, tree, rows)
    wanted = {"test-local": arguments.local, "e2e": arguments.kind}
    with busy_core():
        for target, times in wanted.items():
            done = sum(row.startswith(f"| `make {target}`") for row in rows)
            for number in range(done, times):
                print(f"--- make {target}, run {number + 1} of {times}", flush=True)
                result = run(target)
                rows.append(result.row())
                write(arguments.page, tree, rows)
                if not result.passed:
                    print(f"make {target} failed in run {number + 1} of {times}: {result.summary}")
                    return 1
    print(f"all passed: {', '.join(f'{n} x make {each}' for each, n in wanted.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
