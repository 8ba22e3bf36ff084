"""Scaling: the number of voters, of observers and of records in memory, and the size of the log at a start or for a new replica.

Part of `make bench`; alone `make bench-growth`, which puts its results beside those of the last comparison:

    python bench/growth.py [--log-mib 1024] [--seconds 4] [--starts 3] [--only voters,start] [--no-report]

A part that fails, or that exceeds the time limit, is reported as not measured; the others continue.
"""

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY / "tests") not in sys.path:
    sys.path.insert(0, str(REPOSITORY / "tests"))

import growing_quorum  # noqa: E402
import interpreter  # noqa: E402
import large_log  # noqa: E402
import report  # noqa: E402
from growing_quorum import say  # noqa: E402
from parts import Work, run_parts  # noqa: E402

LOG_MIB = 1024
SECONDS = 4.0
STARTS = 3
BUDGET_SECONDS = 15 * 60.0


def all_parts(log_mib: int, seconds: float, starts: int) -> dict[str, Work]:
    """Every part, by name."""
    log_bytes = log_mib << 20
    return {
        "path": lambda root: growing_quorum.commit_path(root, seconds),
        "voters": lambda root: growing_quorum.voters(root, seconds),
        "observers": lambda root: growing_quorum.observers(root, seconds),
        "start": lambda root: large_log.start(root, log_bytes, starts),
        "join": lambda root: large_log.join(root, log_bytes),
        "memory": large_log.memory,
    }


def measure(
    log_mib: int = LOG_MIB,
    seconds: float = SECONDS,
    starts: int = STARTS,
    only: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Run all parts, each in a temporary directory."""
    found: dict[str, Any] = {"log_mib": log_mib, "date": time.strftime("%Y-%m-%d"), "failed": {}}

    def took(name: str, what: str, figures: dict[str, Any]) -> None:
        found[name][what] = figures
        say(f"{name}, {what}: {shown(figures)}")

    deadline = time.monotonic() + BUDGET_SECONDS
    run_parts("growth", all_parts(log_mib, seconds, starts), found, only, deadline, took)
    return found


def shown(figures: dict[str, Any]) -> str:
    """Numbers for the progress line."""
    numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
    return ", ".join(f"{key} {value:.4g}" for key, value in numbers.items())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log-mib", type=int, default=LOG_MIB)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--starts", type=int, default=STARTS, help="of each system and setting")
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench.json")
    arguments = parser.parse_args()
    # Child processes have to end, too, when a time limit ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    only = tuple(name for name in arguments.only.split(",") if name)
    found = measure(arguments.log_mib, arguments.seconds, arguments.starts, only)
    path: Path = arguments.output
    document = json.loads(path.read_text()) if path.exists() else {}
    document["growth"] = {**document.get("growth", {}), **found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))
    if arguments.report and "rounds" in document:
        report.write(path)


if __name__ == "__main__":
    interpreter.ensure()
    main()
