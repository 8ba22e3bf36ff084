"""`make bench-against BASE=51b52fb`: compares the cost of commits with that of another commit.

    python bench/against.py --base COMMIT [--rounds 5] [--seconds 10]

Both nodes are archives of their commits (the working tree without `--head`) and run on one interpreter. Both quorums run at
the same time and receive load in turns, so that other work on the machine affects both equally. Ratios are computed within a
round; the result is their median. Writes the section "Before and after" of docs/evidence/benchmarks.md.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bench"))
sys.path.insert(0, str(REPOSITORY / "tests"))

import interpreter  # noqa: E402

if __name__ == "__main__":
    interpreter.ensure()

from our_nodes import STEADY_LEADER, OurCluster  # noqa: E402
from page import Target, number, replace_section, table, targets_table  # noqa: E402
from progress import Progress  # noqa: E402

HEADING = "Before and after"
PAGE = REPOSITORY / "docs" / "evidence" / "benchmarks.md"
CLIENTS = (1, 100)
BEFORE, AFTER = "before", "after"
WARMUP_SECONDS = 1.0
SETTLE_SECONDS = 4.0
"""Seconds to wait after the formation, so that one-time work such as compiling codecs is not measured."""
CPU_LIMIT, LATENCY_LIMIT = 1.05, 1.10
"""Limits for changes that are not meant to affect speed."""


class CheckoutCluster(OurCluster):
    """Nodes of another checkout, with the packages of this interpreter.

    A node refuses unknown keys, so only keys that every version knows are set.
    """

    properties = STEADY_LEADER

    def __init__(self, directory: Path, sources: Path) -> None:
        super().__init__(directory)
        self.sources = sources
        for node in self.quorum.nodes.values():
            node.prefix = ("env", f"PYTHONPATH={sources / 'node'}")


def archived(commit: str, folder: Path) -> Path:
    """Extract the node's sources at a commit below `folder`. Raises RuntimeError for an unknown commit."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    archive = ["git", "-C", str(REPOSITORY), "archive", commit, "node"]
    made = subprocess.run(archive, capture_output=True)
    if made.returncode != 0:
        raise RuntimeError(f"{commit}: {made.stderr.decode(errors='replace').strip()}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=made.stdout, check=True)
    return folder


def name_of(commit: str) -> str:
    """Short hash and date of a commit."""
    words = ["git", "-C", str(REPOSITORY), "log", "-1", "--format=%h of %cs", commit]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def is_changed() -> bool:
    """Whether the working tree differs from its commit."""
    words = ["git", "-C", str(REPOSITORY), "status", "--porcelain", "node"]
    return bool(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip())


def loaded(cluster: CheckoutCluster, clients: int, seconds: float) -> dict[str, Any]:
    """Figures of one load; CPU time of all three nodes per commit, in microseconds, warm-up included."""
    cluster.await_whole()
    before = cluster.cpu_seconds()
    found = cluster.load(clients, seconds, WARMUP_SECONDS)
    used = cluster.cpu_seconds() - before
    commits = found["per_second"] * (seconds + WARMUP_SECONDS)
    return {
        "p50_ms": found["p50_ms"],
        "p99_ms": found["p99_ms"],
        "per_second": found["per_second"],
        "cpu_us": 1e6 * used / max(1.0, commits),
    }


def measure(sources: dict[str, Path], rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Figures by round, variant and number of clients."""
    root = REPOSITORY / "build" / "bench" / "against"
    shutil.rmtree(root, ignore_errors=True)
    clusters = {name: CheckoutCluster(root / name, path) for name, path in sources.items()}
    found: list[dict[str, Any]] = []
    progress = Progress({"round": 2 * len(CLIENTS) * (seconds + 3)}, rounds)
    try:
        for cluster in clusters.values():
            cluster.create()
        time.sleep(SETTLE_SECONDS)
        for turn in range(rounds):
            # The second run finds a warm page cache: each version is first equally often.
            order = [BEFORE, AFTER] if turn % 2 == 0 else [AFTER, BEFORE]
            with progress.part("round", turn):
                figures: dict[str, Any] = {name: {} for name in order}
                for clients in CLIENTS:
                    for name in order:
                        figures[name][str(clients)] = loaded(clusters[name], clients, seconds)
                        print(
                            f"  {name}, {clients} clients: {figures[name][str(clients)]}",
                            flush=True,
                        )
                found.append(figures)
    finally:
        for cluster in clusters.values():
            cluster.stop()
        shutil.rmtree(root, ignore_errors=True)
    return found


def middle(rounds: list[dict[str, Any]], variant: str, clients: int, key: str) -> float:
    """Median over the rounds."""
    return float(median(each[variant][str(clients)][key] for each in rounds))


def ratio(rounds: list[dict[str, Any]], clients: int, key: str) -> float:
    """Median of the ratios after/before of the rounds."""
    ratios = [each[AFTER][str(clients)][key] / each[BEFORE][str(clients)][key] for each in rounds]
    return float(median(ratios))


def section(document: dict[str, Any]) -> str:
    """The section of docs/evidence/benchmarks.md."""
    rounds = document["rounds"]
    rows = []
    for clients in CLIENTS:
        for key, what in (("cpu_us", "CPU µs a commit, all nodes"), ("p50_ms", "p50, ms")):
            figures = [middle(rounds, variant, clients, key) for variant in (BEFORE, AFTER)]
            shown = [number(figure, 2) for figure in (*figures, ratio(rounds, clients, key))]
            rows.append([f"{what}, {clients} clients", *shown])
    targets: list[Target] = []
    for clients in CLIENTS:
        cpu, latency = ratio(rounds, clients, "cpu_us"), ratio(rounds, clients, "p50_ms")
        targets.append((f"CPU a commit, {clients} clients: ≤ {CPU_LIMIT} ×", cpu, CPU_LIMIT, True))
        targets.append(
            (f"p50, {clients} clients: ≤ {LATENCY_LIMIT} ×", latency, LATENCY_LIMIT, True)
        )
    return f"""## {HEADING}

`make bench-against BASE={document["base"]}` writes this section ({document["date"]}): it compares the node of {document["base_name"]}
with that of {document["head_name"]}. Both run on {document["interpreter"]}.
Three nodes each, with `quorum.snapshot.handover=false`. Both quorums run at the same time and are loaded in turns, in
{len(rounds)} rounds of {document["seconds"]:g} s for each load. Ratios are computed within a round; all figures are medians over the rounds.

{table(["", "before", "after", "after : before"], rows)}

{targets_table(targets)}
"""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", required=True, help="the commit before")
    parser.add_argument("--head", default="", help="the commit after; default: the working tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench-against.json")
    arguments = parser.parse_args()
    archives = REPOSITORY / "build" / "against"
    sources = {
        BEFORE: archived(arguments.base, archives / BEFORE),
        AFTER: archived(arguments.head, archives / AFTER) if arguments.head else REPOSITORY,
    }
    document = {
        "base": arguments.base,
        "base_name": name_of(arguments.base),
        "head_name": name_of(arguments.head or "HEAD")
        + ("" if arguments.head else " with uncommitted changes" if is_changed() else ""),
        "date": time.strftime("%Y-%m-%d"),
        "interpreter": interpreter.sentence(interpreter.running()),
        "seconds": arguments.seconds,
        "rounds": measure(sources, arguments.rounds, arguments.seconds),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=1))
    text = section(document)
    if arguments.report:
        PAGE.write_text(replace_section(PAGE.read_text() if PAGE.exists() else "", HEADING, text))
    print(text)


if __name__ == "__main__":
    main()
