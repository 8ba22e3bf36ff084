"""The section of docs/evidence/benchmarks.md about scaling and the parts of the latency, and its picture.

Owns text and tables of growth.py's results. Missing figures are reported as not measured.
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from page import number, save, table

OURS = "#1b6ca8"
KAFKA = "#7a7a7a"
LOCAL_AND_REMOTE = (
    ("commit", "accepted → committed"),
    ("replication", "remote: appended → a majority has it"),
    ("fsync", "local: appended → durable on the leader"),
    ("flush", "local: one `fdatasync`"),
    ("apply", "local: replay of what was committed"),
)
Growth = dict[str, Any]


def by_number(growth: Growth, part: str) -> list[tuple[int, dict[str, Any]]]:
    """Figures by number of voters or observers."""
    return sorted((int(count), figures) for count, figures in growth.get(part, {}).items())


def crowd_table(growth: Growth, part: str, what: str) -> str:
    """Latency and throughput by number of voters or observers."""
    found = by_number(growth, part)
    rows = [
        [f"{count} {what}", number(figures["p50_ms"], 2), number(figures["per_second"])]
        for count, figures in found
    ]
    return table(["", "p50, 1 client, ms", "commits/s, 100 clients"], rows)


def start_table(growth: Growth) -> str:
    """Starts by setting and system."""
    rows = []
    for name, figures in growth.get("start", {}).items():
        system, _, setting = name.partition(", ")
        label = "MetadataQuorum" if system == "ours" else "Kafka 4.3.1"
        cells = [number(figures[key], 2) for key in ("first_commit_s", "ready_s", "cpu_s")]
        rows.append([f"{label}, {setting}", *cells, number(figures["resident_mb"], 0)])
    return table(["", "first commit, s", "all in its state, s", "CPU, s", "memory, MB"], rows)


def start_ratio(growth: Growth, setting: str, key: str = "ready_s") -> float | None:
    """Ratio of the start times ours/Kafka."""
    starts = growth.get("start", {})
    ours, kafka = (starts.get(f"{system}, {setting}") for system in ("ours", "kafka"))
    return None if ours is None or kafka is None else ours[key] / kafka[key]


def join_table(growth: Growth) -> str:
    """Joins of an empty replica."""
    rows = [
        [
            f"by {how}",
            number(figures["seconds"], 1),
            number(figures["snapshot_mib"], 0),
            number(figures["log_mib"], 0),
        ]
        for how, figures in growth.get("join", {}).items()
    ]
    return table(["", "seconds", "snapshot, MiB", "log, MiB"], rows)


def memory_table(growth: Growth) -> str:
    """Memory by records."""
    rows = [
        [what, number(figures["mb_per_million"], 0)]
        for what, figures in growth.get("memory", {}).items()
    ]
    return table(["a million", "MB more than before"], rows)


def latency_table(growth: Growth) -> str:
    """Averages of the leader's own histograms."""
    columns = by_number(growth, "path")
    rows = [
        [f"{text}, ms", *(number(figures[key], 2) for _, figures in columns)]
        for key, text in LOCAL_AND_REMOTE
    ]
    return table(["average on the leader", *(f"{count} client(s)" for count, _ in columns)], rows)


def profile_table(growth: Growth) -> str:
    """Shares of the main thread's CPU time, the leader's and a follower's."""
    columns = [
        (f"{role}, {count} client(s)", figures[role])
        for count, figures in by_number(growth, "path")
        for role in ("leader", "follower")
    ]
    if not columns:
        return ""
    parts: dict[str, int] = {}
    for _, profile in columns:
        for part, count in profile["samples"].items():
            parts[part] = parts.get(part, 0) + count
    rows = [["busy, of one core", *(f"{100 * p['busy']:.0f} %" for _, p in columns)]]
    for part in sorted(parts, key=lambda each: -parts[each]):
        cells = []
        for _, profile in columns:
            total = max(1, sum(profile["samples"].values()))
            cells.append(f"{100 * profile['samples'].get(part, 0) / total:.0f} %")
        rows.append([part, *cells])
    return table(["", *(title for title, _ in columns)], rows)


def section(growth: Growth) -> str:
    """The section about growth, as Markdown."""
    failed = "".join(f"\nNot measured: {name}: {why}.\n" for name, why in growth["failed"].items())
    return f"""## What grows

Our nodes with their defaults, one setting after the other. An observer here is a connection that follows the log like
any observer and keeps nothing: all of them are in one process, beside three voters, on the same cores.

![Voters, observers, start-up](benchmarks-growth.svg)

{crowd_table(growth, "voters", "voters")}

{crowd_table(growth, "observers", "observers, 3 voters")}

### Start-up and join with a log of {growth["log_mib"]} MiB

The same records for both systems: config changes with 256-byte values over 100 000 keys, 100 records in a batch. "First"
is the first start after they were written into the log's directory, which has to check all of it. The others are starts
after an orderly stop, medians, both systems in turns: without any snapshot, and with the snapshot that Kafka's defaults
have it write every 20 MiB. Our node accepts and commits writes before the whole log is in its state; Kafka's controller
does not.

{start_table(growth)}

An empty replica beside a leader with such a log, until it is ready and answers a linearizable read of the last value:

{join_table(growth)}

### Memory

Resident memory by config records of 256-byte values:

{memory_table(growth)}
{failed}
## Where the time goes

The leader's own histograms split a commit into what happens on its disk and what happens on the others. The two run side
by side, so they do not add up; the larger one decides. (Averages; the leader and one follower run under a sampling
profiler here, so the figures are a little above those at the top.)

{latency_table(growth)}

With one client nobody waits for a processor: a commit is an append, the `fdatasync` of leader and follower at the same
time, and two messages. With a hundred it waits for its batch, because one thread does all of it on the leader, and that
thread is what the number of commits a second ends at; sockets, queues and the coding of requests are most of
it, Raft itself a small one. On a machine with fewer processors than processes the followers' turn is part of that wait.

Shares of the CPU time of the one thread that does everything but fsync, by the part of the program whose code is
innermost; system calls count for the part that makes them:

{profile_table(growth)}
"""


def draw(growth: Growth, path: Path) -> None:
    """Three panels: voters, observers, start-up."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for axes, part in ((left, "voters"), (middle, "observers")):
        found = by_number(growth, part)
        places = range(len(found))
        axes.bar(places, [figures["per_second"] for _, figures in found], color=OURS)
        axes.set_xticks(places)
        axes.set_xticklabels([str(count) for count, _ in found])
        axes.set(xlabel=part, title=f"Commits a second by {part}, 100 clients")
        latency = axes.twinx()
        latency.plot(places, [f["p50_ms"] for _, f in found], "o-", color="black", markersize=4)
        latency.set(ylim=(0, None), ylabel="p50 of one client, ms (line)")
    starts = list(growth.get("start", {}).items())
    for row, (name, figures) in enumerate(reversed(starts)):
        right.barh(row, figures["ready_s"], color=OURS if name.startswith("ours") else KAFKA)
        right.text(figures["ready_s"], row, f" {figures['ready_s']:.1f} s", va="center", fontsize=8)
    right.set_yticks(range(len(starts)))
    right.set_yticklabels([name for name, _ in reversed(starts)], fontsize=8)
    right.set(xlabel="seconds until all is in its state")
    right.set_title(f"Start with a log of {growth['log_mib']} MiB")
    right.margins(x=0.15)
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    save(figure, path)
