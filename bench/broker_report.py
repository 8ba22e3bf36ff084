"""The section of docs/evidence/benchmarks.md about the controller of brokers, and its picture.

Owns text and tables of brokers.py's results, and the section's place on the page. Figures are medians over the rounds;
ratios are computed within a round. Missing figures are reported as not measured.
"""

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.pyplot as plt
from page import Target, number, replace_section, save, table, targets_table

DOCS = Path(__file__).resolve().parents[1] / "docs" / "evidence"
HEADING = "The controller of brokers"
PICTURE = "benchmarks-controller.svg"
LABELS = {"ours": "MetadataQuorum", "kafka": "Kafka 4.3.1"}
COLOURS = {"ours": "#1b6ca8", "kafka": "#7a7a7a"}
BATCHES = {"1": "one at a time", "100": "100 in a request"}
ENDS = {
    "asked": "the broker asks to be fenced → settled",
    "silent": "its lease ends → settled",
}
Found = dict[str, Any]
Figure = Callable[[Found], float]


def series(found: Found, part: str, what: str, figure: Figure) -> list[float]:
    """One figure from each round."""
    return [figure(each) for each in found.get(part, {}).get(what, [])]


def middle(values: list[float]) -> float | None:
    """The median; None without values."""
    return median(values) if values else None


def ratio(found: Found, part: str, what: str, figure: Figure) -> float | None:
    """Median of the ratios ours/Kafka of the rounds."""
    ours, kafka = (series(found, part, f"{name}{what}", figure) for name in ("ours", "kafka"))
    return middle([a / b for a, b in zip(ours, kafka, strict=False) if b > 0])


def spread(values: list[float], digits: int = 0) -> str:
    """Median, extremes, number."""
    if not values:
        return "–"
    ends = f"{number(min(values), digits)}–{number(max(values), digits)}"
    shown = number(median(values), digits)
    return f"{shown} ({ends}, n={len(values)})" if len(values) > 1 else shown


def sizes(found: Found) -> list[int]:
    """The numbers of failed partitions that were measured."""
    return sorted({int(what.rpartition(", ")[2]) for what in found.get("failures", {})})


def of(*keys: str) -> Figure:
    """A nested figure by its keys, outermost first."""

    def figure(found: Found) -> float:
        inner: Any = found
        for key in keys:
            inner = inner[key]
        return float(inner)

    return figure


def rate(batch: str) -> Figure:
    """Topics per second."""
    return of(batch, "topics_per_second")


def seconds(end: str) -> Figure:
    """Seconds of a broker failure."""
    return of(end, "seconds")


def kills(found: Found, what: str, key: str) -> list[float]:
    """Milliseconds of each kill of all rounds."""
    return [
        each[key] for run in found.get("failures", {}).get(what, []) for each in run["failovers"]
    ]


def creation_table(found: Found) -> str:
    """Rates of topic creation."""
    rows = []
    for batch, text in BATCHES.items():
        cells = [text]
        for name in LABELS:
            p50 = middle(series(found, "creation", name, of(batch, "p50_ms")))
            p99 = middle(series(found, "creation", name, of(batch, "p99_ms")))
            shown = middle(series(found, "creation", name, rate(batch)))
            cells.append(f"{number(shown)} ({number(p50)}, {number(p99)})")
        rows.append([*cells, number(ratio(found, "creation", "", rate(batch)), 1)])
    head = ["topics/s (a request's p50, p99 in ms)", *LABELS.values(), "ours : theirs"]
    return table(head, rows)


def failure_table(found: Found, end: str) -> str:
    """Milliseconds by number of partitions."""
    rows = []
    for size in sizes(found):
        cells = [f"{number(size)} partitions"]
        for name in LABELS:
            values = series(found, "failures", f"{name}, {size}", seconds(end))
            cells.append(spread([1e3 * each for each in values]))
        slowest = [
            spread(series(found, "failures", f"{name}, {size}", of(end, "heartbeat_ms")))
            for name in LABELS
        ]
        rows.append(
            [*cells, number(ratio(found, "failures", f", {size}", seconds(end)), 2), *slowest]
        )
    beats = [f"slowest heartbeat meanwhile, {label}" for label in LABELS.values()]
    return table([f"{ENDS[end]}, ms", *LABELS.values(), "ours : theirs", *beats], rows)


def failover_table(found: Found) -> str:
    """Milliseconds by number of partitions."""
    rows = []
    for size in sizes(found):
        cells = [f"{number(size)} partitions"]
        for key in ("topic_ms", "heartbeat_ms"):
            cells += [spread(kills(found, f"{name}, {size}", key)) for name in LABELS]
        rows.append(cells)
    whats = ("a topic is created", "a heartbeat is answered")
    head = [f"`kill -9` → {what}, {label}, ms" for what in whats for label in LABELS.values()]
    return table(["", *head], rows)


def memory_table(found: Found) -> str:
    """Bytes per partition."""
    rows = []
    for size in sizes(found)[-1:]:
        cells = [f"created one by one: {number(size)}"]
        for name in LABELS:
            grown = series(found, "failures", f"{name}, {size}", of("grown_mb"))
            cells.append(spread([1e6 * each / size for each in grown]))
        rows.append(cells)
    each = [spread(series(found, "million", name, of("bytes_each"))) for name in LABELS]
    records = middle(series(found, "million", "ours", of("records")))
    rows.append([f"from a log: {number(records)} records", *each])
    return table(["bytes a partition", *LABELS.values()], rows)


def million_table(found: Found) -> str:
    """Snapshot and starts."""
    texts = {
        "start_from_log_s": "start from the log → a topic is created, s",
        "snapshot_write_s": "writing a snapshot, s",
        "snapshot_mib": "its size, MiB",
        "longest_write_meanwhile_ms": "slowest of the writes meanwhile, ms",
        "start_from_snapshot_s": "start from the snapshot → a topic is created, s",
    }
    rows = [
        [text, *(spread(series(found, "million", name, of(key)), 1) for name in LABELS)]
        for key, text in texts.items()
    ]
    return table(["", *LABELS.values()], rows)


def growth(found: Found) -> float | None:
    """Time with the largest number of partitions, divided by ten times the time with a tenth of it.

    Ratios are computed within a round; the result is the median over all rounds and both kinds of failure.
    """
    if len(sizes(found)) < 2:
        return None
    before, last = sizes(found)[-2:]
    ratios: list[float] = []
    for end in ENDS:
        small, large = (
            series(found, "failures", f"ours, {size}", seconds(end)) for size in (before, last)
        )
        ratios += [b / a * before / last for a, b in zip(small, large, strict=False) if a > 0]
    return middle(ratios)


def failover_growth(found: Found) -> float | None:
    """Our failover time with the most partitions, divided by that with the fewest."""
    if len(sizes(found)) < 2:
        return None
    few, many = (
        middle(kills(found, f"ours, {size}", "topic_ms"))
        for size in (sizes(found)[0], sizes(found)[-1])
    )
    return None if not few or not many else many / few


def targets(found: Found) -> str:
    """The targets and the measured values."""
    checks: list[Target] = [
        (
            "topics one at a time: ≥ 10 × Kafka's rate",
            ratio(found, "creation", "", rate("1")),
            10,
            False,
        ),
        ("100 in a request: ≥ 2 × Kafka's", ratio(found, "creation", "", rate("100")), 2, False),
    ]
    for end, what in (("asked", "asks to be fenced"), ("silent", "lease ends")):
        own = middle(series(found, "failures", "ours, 10000", seconds(end)))
        checks.append((f"10 000 partitions, {what}: ≤ 1 s", own, 1, True))
        for size in sizes(found):
            text = f"{number(size)} partitions, {what}: ≤ 1.0 × Kafka's time"
            checks.append((text, ratio(found, "failures", f", {size}", seconds(end)), 1, True))
    last = " to ".join(number(size) for size in sizes(found)[-2:])
    text = f"growth from {last} partitions: ≤ 1.0 × linear"
    checks.append((text, growth(found), 1, True))
    text = "failover with the most partitions: ≤ 1.5 × that with the fewest"
    checks.append((text, failover_growth(found), 1.5, True))
    return targets_table(checks)


def cost(found: Found) -> str:
    """CPU time of the light brokers."""
    shares = [
        figures["silent"]["idle_brokers_cpu_share"]
        for runs in found.get("failures", {}).values()
        for figures in runs
    ]
    return f"{100 * median(shares):.1f} % of one core" if shares else "not measured"


def section(found: Found) -> str:
    """The section about the controller, as Markdown, with its heading."""
    failed = "".join(f"\nNot measured: {name}: {why}.\n" for name, why in found["failed"].items())
    return f"""## {HEADING}

`make bench-controller` makes this section ({found["date"]}): three controllers of each system with their defaults, in
turns. Brokers are light ones: a hundred in one process, each of which registers and sends a heartbeat every two seconds
over a connection of its own, with the same bytes for both systems; one connection follows the metadata log for all of
them, and decodes nothing while something is measured. Heartbeats and following took {cost(found)}.

![Broker failure, failover, topic creation]({PICTURE})

### Topic creation

One client, straight to the active controller; a topic has one partition with three replicas.

{creation_table(found)}

### A broker fails

Every partition has three replicas, one of them on the broker that fails; it leads a third of them, or two thirds of
them in the second failure. The clock stops when an observer of the log learns that the last change is committed which
takes the broker out of a leader's place or an ISR. It starts when the broker asks to be fenced; or, where a broker just
falls silent, when its lease ends: 9 s after the answer to its last heartbeat. A stock controller looks for ended leases
every 2.25 s. Growth is the ratio of two sizes within a round, the median of all rounds and both tables.

{failure_table(found, "asked")}

{failure_table(found, "silent")}

### The active controller fails

{failover_table(found)}

### Memory, and a million partitions

Of the active controller: what is resident more than before (ours), what the heap holds more after a collection (Kafka).

{memory_table(found)}

One controller alone, the same records in both logs: topics of ten partitions with three replicas each.

{million_table(found)}

### Targets of the controller

{targets(found)}
{failed}"""


def draw(found: Found, path: Path) -> None:
    """Three panels: broker failure, failover, topic creation."""
    figure, (left, middle_axes, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for name, label in LABELS.items():
        for end, style in (("asked", "o-"), ("silent", "s--")):
            points = [
                (size, 1e3 * median(values))
                for size in sizes(found)
                if (values := series(found, "failures", f"{name}, {size}", seconds(end)))
            ]
            what = "asks to be fenced" if end == "asked" else "lease ends"
            xs, ys = [x for x, _ in points], [y for _, y in points]
            left.plot(xs, ys, style, color=COLOURS[name], markersize=4, label=f"{label}, {what}")
        for place, size in enumerate(sizes(found)):
            times = kills(found, f"{name}, {size}", "topic_ms")
            height = place + (0.1 if name == "ours" else -0.1)
            middle_axes.plot(times, [height] * len(times), "|", color=COLOURS[name], markersize=12)
        rates = [middle(series(found, "creation", name, rate(batch))) or 0 for batch in BATCHES]
        places = [each + (0.2 if name == "kafka" else -0.2) for each in range(len(BATCHES))]
        right.bar(places, rates, 0.4, color=COLOURS[name], label=label)
    left.set(xscale="log", yscale="log", xlabel="partitions", ylabel="ms")
    left.set_title("A broker fails: all partitions settled")
    left.legend(fontsize=7)
    middle_axes.set_yticks(range(len(sizes(found))))
    middle_axes.set_yticklabels([number(size) for size in sizes(found)])
    middle_axes.set(xscale="log", xlabel="ms until a topic is created", ylabel="partitions")
    middle_axes.set_title("`kill -9` of the active controller")
    right.set_xticks(range(len(BATCHES)))
    right.set_xticklabels(list(BATCHES.values()))
    right.set(yscale="log", title="Topics created a second")
    right.legend(fontsize=8)
    for axes in (left, middle_axes, right):
        axes.grid(alpha=0.3)
    save(figure, path)


def write_alone(found: Found) -> None:
    """Write the section and its picture; the rest of the page is unchanged."""
    draw(found, DOCS / PICTURE)
    page = DOCS / "benchmarks.md"
    page.write_text(replace_section(page.read_text(), HEADING, section(found)))
    print(section(found))
