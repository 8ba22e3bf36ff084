"""The section of docs/evidence/benchmarks.md about mutual TLS.

Owns tables, targets and ratios of mutual_tls.py's results. Ratios are computed within a round, where both variants received load in turns; their
median is shown.
"""

from statistics import median
from typing import Any

from etcd_members import version as etcd_version
from page import Target, number, table, targets_table

HEADING = "With mutual TLS"
OURS, ETCD = "metadataquorum", "etcd"
PLAIN, TLS = "plain", "tls"
LABELS = {OURS: "MetadataQuorum", ETCD: f"etcd {etcd_version()}", "kafka": "Kafka 4.3.1"}
VARIANTS = {PLAIN: "plain", TLS: "TLS"}
LATENCY_LIMIT = 1.05
"""Of the p50 of one client, TLS : plain."""
THROUGHPUT_LIMIT = 0.9
"""Of the commits per second of 100 clients, TLS : plain."""
HOLD_LIMIT_MS = 1.0
PORTS = ("Kafka port", "admin port")
Document = dict[str, Any]


def rounds_of(document: Document, system: str) -> list[dict[str, Any]]:
    """Rounds of a system, including those that failed in part."""
    return [entry for entry in document["rounds"] if entry["system"] == system]


def figure(entry: dict[str, Any], variant: str, clients: int, key: str) -> float | None:
    """A figure of one round; None if it is missing."""
    found = [load[key] for load in entry[variant] if load["clients"] == clients]
    return found[0] if found and found[0] > 0 else None


def middle(document: Document, system: str, variant: str, clients: int, key: str) -> float | None:
    """Median over the rounds."""
    series = [figure(entry, variant, clients, key) for entry in rounds_of(document, system)]
    found = [each for each in series if each is not None]
    return median(found) if found else None


def costs(document: Document, system: str, clients: int, key: str) -> dict[int, float]:
    """By round: the figure with TLS divided by that without."""
    ratios = {}
    for entry in rounds_of(document, system):
        plain, tls = (figure(entry, variant, clients, key) for variant in (PLAIN, TLS))
        if plain is not None and tls is not None:
            ratios[entry["number"]] = tls / plain
    return ratios


def cost(document: Document, system: str, clients: int, key: str) -> float | None:
    """Median over the rounds of TLS : plain."""
    ratios = costs(document, system, clients, key)
    return median(ratios.values()) if ratios else None


def against_etcd(document: Document, clients: int, key: str) -> float | None:
    """Median over the rounds of (ours : etcd with TLS) : (ours : etcd without). Rounds in which one is missing do not count."""
    ours, theirs = (costs(document, system, clients, key) for system in (OURS, ETCD))
    ratios = [ours[each] / theirs[each] for each in ours if each in theirs]
    return median(ratios) if ratios else None


def latency_table(document: Document) -> str:
    """One client, with a row "TLS : plain" for each system."""
    rows = []
    for system in systems_of(document):
        for variant, shown in VARIANTS.items():
            keys = ("p50_ms", "p99_ms", "per_second")
            p50, p99, rate = (middle(document, system, variant, 1, key) for key in keys)
            label = f"{LABELS[system]}, {shown}"
            rows.append([label, number(p50, 2), number(p99, 2), number(rate)])
        ratios = (cost(document, system, 1, key) for key in ("p50_ms", "p99_ms", "per_second"))
        rows.append([f"{LABELS[system]}, TLS : plain", *(number(each, 3) for each in ratios)])
    return table(["1 client", "p50, ms", "p99, ms", "commits/s"], rows)


def throughput_table(document: Document) -> str:
    """Several clients, with a row "TLS : plain" for each system."""
    counts = [count for count in counts_of(document) if count > 1]
    rows = []
    for system in systems_of(document):
        for variant, shown in VARIANTS.items():
            cells = []
            for count in counts:
                keys = ("per_second", "p50_ms", "p99_ms")
                figures = (middle(document, system, variant, count, key) for key in keys)
                rate, half, tail = (number(each) for each in figures)
                cells.append(f"{rate} ({half}, {tail})")
            rows.append([f"{LABELS[system]}, {shown}", *cells])
        ratios = [number(cost(document, system, count, "per_second"), 2) for count in counts]
        rows.append([f"{LABELS[system]}, TLS : plain", *ratios])
    head = ["commits/s (p50, p99 in ms)", *(f"{count} clients" for count in counts)]
    return table(head, rows)


def holds_table(holds: dict[str, dict[str, dict[str, float]]]) -> str:
    """Longest turns of the loop during an answer."""
    rows = []
    for variant, shown in VARIANTS.items():
        for port, found in holds.get(variant, {}).items():
            size = number(found["bytes"] / (1 << 20), 1) if found["bytes"] else "–"
            figures = [number(found[key], 2) for key in ("median_ms", "max_ms")]
            rows.append([f"{port}, {shown}", size, *figures])
    return table(["", "answer, MiB", "longest turn, ms: median", "maximum"], rows)


def targets(document: Document) -> list[Target]:
    """The targets and the measured values."""
    latency = cost(document, OURS, 1, "p50_ms")
    rate = cost(document, OURS, 100, "per_second")
    checks: list[Target] = [
        (f"p50, 1 client: ≤ {LATENCY_LIMIT} × plain", latency, LATENCY_LIMIT, True),
        (f"throughput, 100 clients: ≥ {THROUGHPUT_LIMIT} × plain", rate, THROUGHPUT_LIMIT, False),
    ]
    holds = document.get("holds", {}).get(TLS, {})
    for port in PORTS:
        held = holds.get(port, {}).get("median_ms")
        text = f"answer of 8 MiB over TLS, {port}: longest turn ≤ 1 ms of CPU time"
        checks.append((text, held, HOLD_LIMIT_MS, True))
    latency = against_etcd(document, 1, "p50_ms")
    checks.append(("p50, 1 client, ours : etcd with TLS: ≤ that without", latency, 1.0, True))
    for count in counts_of(document):
        if count > 1:
            rate = against_etcd(document, count, "per_second")
            text = f"throughput, {count} clients, ours : etcd with TLS: ≥ that without"
            checks.append((text, rate, 1.0, False))
    return checks


def systems_of(document: Document) -> list[str]:
    """The measured systems."""
    return [name for name in LABELS if rounds_of(document, name)]


def counts_of(document: Document) -> list[int]:
    """The measured numbers of clients."""
    entries = document["rounds"]
    return sorted({load["clients"] for e in entries for v in VARIANTS for load in e[v]})


def section(document: Document) -> str:
    """The section of docs/evidence/benchmarks.md."""
    rounds = max((entry["number"] + 1 for entry in document["rounds"]), default=0)
    failed = "".join(
        f"\n**Failed:** {LABELS[entry['system']]}, round {entry['number'] + 1}: {entry['failed']}\n"
        for entry in document["rounds"]
        if entry["failed"]
    )
    return f"""## {HEADING}

`make bench-tls` writes this section, as does `make bench` ({document["date"]}, {document["interpreter"]}). Of each system two clusters of three run at the same time, in clear text and
with TLS 1.3. With TLS, members require certificates of each other and of clients: ours on both ports, etcd with peer and client TLS, Kafka with SSL. Keys are on the
curve P-256, and no authorizer is configured. The load is that of the other sections, in turns, {rounds} rounds of {document["seconds"]:g} s each. Ratios are computed within a round; all figures are medians.
{failed}
{latency_table(document)}

{throughput_table(document)}

A large answer is sent in parts, one in each turn of the node's event loop. The table has the longest turn during an answer, in CPU time of the loop's thread: a
Fetch on the Kafka port, `GET /v1/configs` on the admin port. The read of the records from the log is one turn, with TLS and without.

{holds_table(document.get("holds", {}))}

{targets_table(targets(document))}
"""
