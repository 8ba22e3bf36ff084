"""Turns a run's JSON into docs/evidence/benchmarks.md and docs/evidence/benchmarks.svg.

    python bench/report.py build/bench.json

Figures are medians over the rounds of one run. Ratios are computed within a round, where both systems ran on the same machine
within minutes; their median is shown. Targets are printed with the measured values, whether reached or missed.
"""

import json
import sys
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import broker_report
import growth_report
import matplotlib.pyplot as plt
import pipeline_report
import tls_report
from etcd_members import version as etcd_version
from our_nodes import MANY_CONNECTIONS
from page import Target, number, save, section_of, table, targets_table
from zookeeper_members import version as zookeeper_version

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "evidence" / "benchmarks.md"
OURS = "metadataquorum"
LABELS = {
    OURS: "MetadataQuorum",
    "etcd": f"etcd {etcd_version()}",
    "zookeeper": f"ZooKeeper {zookeeper_version()}",
    "kafka": "Kafka 4.3.1",
    "kafka-linger-0": "Kafka 4.3.1, linger 0",
}
COLOURS = {
    OURS: "#1b6ca8",
    "etcd": "#d1495b",
    "zookeeper": "#5a9367",
    "kafka": "#7a7a7a",
    "kafka-linger-0": "#b8b8b8",
}
FAULTS = {
    "SIGKILL": "`kill -9` of the leader → next commit",
    "SIGSTOP": "leader frozen (`SIGSTOP`) → next commit",
    "SIGTERM": "leader stopped (`SIGTERM`): longest write gap",
}


class Results:
    """One run, by system."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.rounds: dict[str, list[dict[str, Any]]] = {}
        for entry in document["rounds"]:
            self.rounds.setdefault(entry["system"], []).append(entry)
        self.systems = [name for name in LABELS if name in self.rounds]

    def series(self, system: str, clients: int, key: str) -> list[float]:
        """The figure of each round."""
        loads = [load for entry in self.rounds.get(system, []) for load in entry["loads"]]
        return [load[key] for load in loads if load["clients"] == clients]

    def load(self, system: str, clients: int, key: str) -> float | None:
        """Median over the rounds."""
        found = self.series(system, clients, key)
        return median(found) if found else None

    def ratio(self, other: str, clients: int, key: str) -> float | None:
        """Median of the ratios ours/other of the rounds. A round in which one of them failed does not count."""
        ours, theirs = (self.by_round(system, clients, key) for system in (OURS, other))
        ratios = [ours[number] / theirs[number] for number in ours if theirs.get(number, 0) > 0]
        return median(ratios) if ratios else None

    def by_round(self, system: str, clients: int, key: str) -> dict[int, float]:
        """Figures by round."""
        return {
            entry.get("number", index): load[key]
            for index, entry in enumerate(self.rounds.get(system, []))
            for load in entry["loads"]
            if load["clients"] == clients
        }

    def fault_ratio(self, other: str, fault: str) -> float | None:
        """Our median divided by the other's median, over all repeats."""
        ours, theirs = self.fault(OURS, fault), self.fault(other, fault)
        return median(ours) / median(theirs) if ours and theirs else None

    @property
    def failures(self) -> list[str]:
        """Failures by system and round."""
        return [
            f"{LABELS[name]}, round {number}: {entry['failed']}"
            for name in self.systems
            for number, entry in enumerate(self.rounds[name], 1)
            if entry.get("failed")
        ]

    def fault(self, system: str, fault: str) -> list[float]:
        """All repeats, ascending, milliseconds."""
        entries = self.rounds.get(system, [])
        return sorted(ms for entry in entries for ms in entry["faults"].get(fault, []))

    @property
    def client_counts(self) -> list[int]:
        """The measured numbers of clients."""
        return sorted({load["clients"] for e in self.document["rounds"] for load in e["loads"]})


def latency_table(results: Results) -> str:
    """Latencies of one client."""
    rows = []
    for name in results.systems:
        cells = [number(results.load(name, 1, key), 2) for key in ("p50_ms", "p99_ms")]
        ratio = "" if name == OURS else number(results.ratio(name, 1, "p50_ms"), 3)
        rows.append([LABELS[name], *cells, number(results.load(name, 1, "per_second")), ratio])
    return table(["", "p50, ms", "p99, ms", "commits/s", "our p50 : theirs"], rows)


def throughput_table(results: Results) -> str:
    """Throughput of several clients."""
    counts = [count for count in results.client_counts if count > 1]
    head = ["commits/s (p50, p99 in ms)", *(f"{count} clients" for count in counts)]
    rows = []
    for name in results.systems:
        cells = []
        for count in counts:
            figures = [results.load(name, count, k) for k in ("per_second", "p50_ms", "p99_ms")]
            rate, middle, tail = (number(figure) for figure in figures)
            cells.append(f"{rate} ({middle}, {tail})")
        rows.append([LABELS[name], *cells])
    for name in results.systems[1:]:
        ratios = [number(results.ratio(name, count, "per_second"), 2) for count in counts]
        rows.append([f"ours : {LABELS[name]}", *ratios])
    return table(head, rows)


def fault_table(results: Results) -> str:
    """Median, extremes and number of repeats."""
    systems = [name for name in results.systems if results.fault(name, "SIGKILL")]
    rows = []
    for fault, title in FAULTS.items():
        cells = [title]
        for name in systems:
            found = results.fault(name, fault)
            if not found:
                cells.append("–")
                continue
            low, middle, high = (number(ms, 0) for ms in (found[0], median(found), found[-1]))
            cells.append(f"{middle} ms ({low}–{high}, n={len(found)})")
        rows.append(cells)
    return table(["median (range)", *(LABELS[name] for name in systems)], rows)


def calibration_table(results: Results) -> str:
    """The generator's rate without a server, and its share of a core in the real runs."""
    rows = []
    for entry in results.document["calibration"]:
        micros = 1e6 * entry["cpu_seconds"] / max(1, entry["count"])
        clients = entry["clients"]
        real = results.load(OURS, clients, "per_second")
        share = None if real is None else real * micros / 1e6
        shown = "–" if share is None else f"{100 * share:.0f} %"
        figures = [number(entry["per_second"]), number(entry["p50_ms"], 3), number(micros), shown]
        rows.append([str(clients), *figures])
    head = ["clients", "answers/s", "p50, ms", "CPU µs a write", "of one core at our rate above"]
    return table(head, rows)


def targets(results: Results) -> str:
    """The targets and the measured values."""

    def middle(fault: str) -> float | None:
        found = results.fault(OURS, fault)
        return median(found) if found else None

    etcd_latency = results.ratio("etcd", 1, "p50_ms")
    kafka_latency = results.ratio("kafka", 1, "p50_ms")
    etcd_rate = results.ratio("etcd", 100, "per_second")
    etcd_crowd = results.ratio("etcd", 1000, "per_second")
    zookeeper_latency = results.ratio("zookeeper", 1, "p50_ms")
    zookeeper_rate = results.ratio("zookeeper", 100, "per_second")
    frozen = results.fault_ratio("etcd", "SIGSTOP")
    kafka_rate = results.ratio("kafka", 100, "per_second")
    growth = results.document.get("growth", {})
    checks: list[Target] = [
        ("latency p50, 1 client: ≤ 1/10 of Kafka's default", kafka_latency, 0.1, True),
        ("latency p50, 1 client: ≤ 0.7 × etcd's", etcd_latency, 0.7, True),
        ("latency p50, 1 client: ≤ 1.0 × ZooKeeper's", zookeeper_latency, 1.0, True),
        ("throughput, 100 clients: ≥ 1.0 × etcd's", etcd_rate, 1.0, False),
        ("throughput, 100 clients: ≥ 1.0 × ZooKeeper's", zookeeper_rate, 1.0, False),
        ("throughput, 1000 clients: ≥ 1.0 × etcd's", etcd_crowd, 1.0, False),
        ("throughput, 100 clients: ≥ 2 × Kafka's", kafka_rate, 2.0, False),
        ("`kill -9` → next commit, p50 ≤ 300 ms", middle("SIGKILL"), 300, True),
        ("`SIGSTOP` → next commit: ≤ 1.0 × etcd's", frozen, 1.0, True),
        ("`SIGTERM`: write gap, p50 ≤ 15 ms", middle("SIGTERM"), 15, True),
    ]
    for setting in ("no snapshot", "snapshots every 20 MiB"):
        ratio = growth_report.start_ratio(growth, setting)
        checks.append((f"start with a large log, {setting}: ≤ 1.0 × Kafka's", ratio, 1.0, True))
    return targets_table(checks)


def draw(results: Results, path: Path) -> None:
    """Three panels: latency of one client, throughput, faults."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for place, name in enumerate(results.systems):
        low, high = (results.load(name, 1, key) or 0 for key in ("p50_ms", "p99_ms"))
        left.bar(place, low, color=COLOURS[name])
        left.plot([place, place], [low, high], color="black", linewidth=1)
        left.plot(place, high, marker="_", color="black", markersize=14)
        rates = [results.load(name, count, "per_second") for count in results.client_counts]
        middle.plot(
            results.client_counts, rates, marker="o", color=COLOURS[name], label=LABELS[name]
        )
    left.set_xticks(range(len(results.systems)))
    left.set_xticklabels(
        [LABELS[name].replace(", ", ",\n") for name in results.systems], fontsize=8
    )
    left.set(yscale="log", ylabel="ms", title="One client: commit p50 (bar), p99 (dash)")
    middle.set(
        xscale="log", yscale="log", xlabel="clients", title="Commits a second, 256-byte values"
    )
    middle.legend(fontsize=8)
    systems = [name for name in results.systems if results.fault(name, "SIGKILL")]
    for row, fault in enumerate(reversed(FAULTS)):
        for lane, name in enumerate(systems):
            found = results.fault(name, fault)
            height = row + 0.2 * (1.5 - lane)
            right.plot(found, [height] * len(found), "|", color=COLOURS[name], markersize=9)
    right.set_yticks(range(len(FAULTS)))
    right.set_yticklabels(list(reversed(FAULTS)))
    right.set(xscale="log", xlabel="ms without a commit", title="The leader is hit")
    for axes in (left, middle, right):
        axes.grid(alpha=0.3)
    save(figure, path)


def own_section(part: ModuleType, found: dict[str, Any] | None) -> str:
    """The section of a part that can also run alone: of this run, or the existing one."""
    if found is not None:
        return str(part.section(found))
    return section_of(PAGE.read_text() if PAGE.exists() else "", part.HEADING)


def settings() -> str:
    """Differences from the defaults, and what a write is."""
    limits = " and ".join(f"`{key}={value}`" for key, value in MANY_CONNECTIONS.items())
    return f"""**Settings:** every system with its defaults, with these exceptions. Kafka also runs with `controller.quorum.append.linger.ms=0`, ours with
`quorum.snapshot.handover=false`, because all load goes to one address. A write is a
256-byte value: one `IncrementalAlterConfigs` to us, one `incrementalAlterConfigs` of Kafka's AdminClient to Kafka
(one admin client a client), one `Put` of etcd's Go client to etcd, one `setData` of ZooKeeper's Java client to ZooKeeper
(Go and Java clients: at most 100 connections or sessions). Every client has one write in flight; all four acknowledge
after a majority has the write on disk. All clients of a system share one address, so limits of connections are raised: ours with
{limits}, while ZooKeeper's limit of connections from one address is lifted."""


def document(results: Results) -> str:
    """The whole page."""
    growth = results.document.get("growth")
    known = PAGE.read_text() if PAGE.exists() else ""
    parts = (section_of(known, heading) for heading in ("What grows", "Where the time goes"))
    grown = "\n".join(parts) if growth is None else growth_report.section(growth)
    controller = own_section(broker_report, results.document.get("controller"))
    pipeline = own_section(pipeline_report, results.document.get("pipeline"))
    tls = own_section(tls_report, results.document.get("tls"))
    against, operator = (section_of(known, name) for name in ("Before and after", "The operator"))
    machine = results.document["machine"]
    disk = machine["fdatasync_ms"]
    rounds = max(len(entries) for entries in results.rounds.values())
    failed = "".join(f"\n**Failed:** {each}\n" for each in results.failures)
    memory = ", ".join(
        f"{LABELS[name]} {median(e['resident_mb'] for e in results.rounds[name]):.0f} MB"
        for name in results.systems
    )
    return f"""# Benchmarks

`make bench` writes this page; terms are in the [glossary](../reference/glossary.md). Three local processes of each system on one machine, one system at a time, in turns,
{rounds} rounds in one run ({machine["date"]}). Absolute figures belong to the machine; compare only within the run.

**Machine:** {machine["cores"]} virtual cores, {machine["memory_gib"]} GiB, {machine["system"]}; servers and load
generator share the cores. **Interpreter** of our nodes and generators: {machine["interpreter"]}. `fdatasync` after a 400-byte append: p50 {disk["p50"]}
ms, p99 {disk["p99"]} ms. Other processes took {100 * machine["others_cpu_share"]:.0f} % of the
CPU time during the run.

{settings()}
{failed}

![Latency, throughput, faults](benchmarks.svg)

## One client

{latency_table(results)}

## Throughput

{throughput_table(results)}

## Failure of the leader

Writes are tried on all members all the time, with 2 ms between attempts; the same prober serves us and Kafka. Two times
decide what a frozen leader costs: after how long the others ask for another one (ours: half of
`controller.quorum.fetch.timeout.ms`, so 1 s), and how often they hear from it when nothing is written.

{fault_table(results)}

## Targets

{targets(results)}

{tls}
{against}
{grown}
{controller}
{pipeline}
{operator}
## What the load generator costs

The generator for our nodes is one uvloop thread with pre-encoded requests. Against a server that answers at once:

{calibration_table(results)}

Resident memory of the largest member after the load: {memory}.
"""


def write(source: Path) -> None:
    """Read a run's JSON; write the page and the picture; print the page."""
    results = Results(json.loads(source.read_text()))
    docs = REPOSITORY / "docs" / "evidence"
    draw(results, docs / "benchmarks.svg")
    if "growth" in results.document:
        growth_report.draw(results.document["growth"], docs / "benchmarks-growth.svg")
    if "controller" in results.document:
        broker_report.draw(results.document["controller"], docs / broker_report.PICTURE)
    text = document(results)
    PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
