"""The section of docs/evidence/benchmarks.md about the data path of brokers: text, table, targets."""

from pathlib import Path
from typing import Any

from page import Target, number, replace_section, table, targets_table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "benchmarks.md"
HEADING = "The data path of brokers"
Found = dict[str, Any]


def figure(found: Found, kind: str, part: str, name: str, what: str) -> float | None:
    """One figure; None if it was not measured."""
    value = found.get(kind, {}).get(part, {}).get(name, {}).get(what)
    return None if value is None else float(value)


def ratio(found: Found, part: str, name: str, what: str) -> float | None:
    """Ratio ours/Kafka."""
    ours, theirs = (figure(found, kind, part, name, what) for kind in ("ours", "kafka"))
    return None if ours is None or not theirs else ours / theirs


def envs(found: Found) -> list[str]:
    """Names of the workloads."""
    names: dict[str, None] = {}
    for kind in ("kafka", "ours"):
        names.update(dict.fromkeys(found.get(kind, {}).get("throughput", {})))
    return list(names)


def throughput_table(found: Found) -> str:
    """One row for each workload, with both figures in one cell."""

    def both(name: str, what: str, digits: int = 1) -> str:
        pair = (figure(found, kind, "throughput", name, what) for kind in ("ours", "kafka"))
        return " / ".join(number(each, digits) for each in pair)

    columns = (
        ("produced, MB/s", "mb_per_second", 1),
        ("p50, ms", "p50_ms", 1),
        ("p99, ms", "p99_ms", 1),
        ("server CPU, ms/MB", "cpu_ms_per_mb", 1),
        ("consumed, MB/s", "consumer_mb_per_second", 1),
        ("resident, MB", "resident_mb", 0),
    )
    for kind in ("ours", "kafka"):
        for each in found.get(kind, {}).get("throughput", {}).values():
            each["cpu_ms_per_mb"] = 1000 * each["cpu_seconds_per_mb"]
    rows = [
        [name, *(both(name, what, digits) for _, what, digits in columns)] for name in envs(found)
    ]
    return table(["ours / Kafka", *(title for title, _, _ in columns)], rows)


def other_table(found: Found) -> str:
    """Table of the single figures."""
    rows: list[list[str]] = []
    for part, what, title in (
        ("failover", "seconds", "{}: until a record is acknowledged again, s"),
        ("restart", "seconds", "start after kill -9 with a log of {}, s"),
        ("idle", "cores_per_broker", "CPU of a broker with {} that are idle, cores"),
    ):
        for name in dict.fromkeys(
            each for kind in ("kafka", "ours") for each in found.get(kind, {}).get(part, {})
        ):
            values = (figure(found, kind, part, name, what) for kind in ("ours", "kafka"))
            rows.append([title.format(name), *(number(each, 2) for each in values)])
    return table(["", "ours", "Kafka"], rows) if rows else ""


def targets(found: Found) -> str:
    """The targets and the measured values."""
    checks: list[Target] = []
    for name in envs(found):
        checks += [
            (f"{name}: throughput ≥ 1 × Kafka's", ratio(found, "throughput", name, "mb_per_second"), 1, False),
            (f"{name}: p99 ≤ 1.5 ×", ratio(found, "throughput", name, "p99_ms"), 1.5, True),
            (f"{name}: server CPU ≤ 0.5 ×", ratio(found, "throughput", name, "cpu_seconds_per_mb"), 0.5, True),
            (f"{name}: consumer ≥ 1 ×", ratio(found, "throughput", name, "consumer_mb_per_second"), 1, False),
            (f"{name}: resident memory ≤ 0.3 ×", ratio(found, "throughput", name, "resident_mb"), 0.3, True),
        ]  # fmt: skip
    for part, what in (("failover", "failover"), ("restart", "restart after kill -9")):
        for name in found.get("ours", {}).get(part, {}):
            checks.append((f"{what} ≤ 1 × Kafka's time", ratio(found, part, name, "seconds"), 1, True))  # fmt: skip
    for name in found.get("ours", {}).get("idle", {}):
        own = figure(found, "ours", "idle", name, "cores_per_broker")
        checks.append((f"{name}, idle: ≤ 0.05 cores a broker", own, 0.05, True))
    return targets_table(checks)


def section(found: Found) -> str:
    """The section with its heading."""
    failed = "".join(f"\nNot measured: {name}: {why}.\n" for name, why in found["failed"].items())
    note = f"**{found['note']}**\n\n" if found.get("note") else ""
    judged = "Targets are not judged by such a run." if note else targets(found)
    return f"""## {HEADING}

`make bench-broker` makes this section ({found["date"]}): three brokers of each kind on one controller of ours, one kind after the other on one
machine, with the same stock clients. Replication factor 3, `min.insync.replicas=2`, acks=all; {found["megabytes"]} MB in each env, a quarter of
it with 100-byte records. Producers are `kafka-producer-perf-test` with its defaults; the consumer is a Java consumer without a group. Server CPU is that of
all three brokers. Clients and servers share the cores.

{note}{throughput_table(found)}

{other_table(found)}

{judged}
{failed}"""


def write(found: Found) -> None:
    """Replace the section in the page."""
    PAGE.write_text(replace_section(PAGE.read_text(), HEADING, section(found)))
