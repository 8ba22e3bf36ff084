"""The section of docs/evidence/benchmarks.md about the pipeline.

Owns text and tables of pipeline.py's results, and the section's place on the page. Missing figures are reported as not measured.
"""

from pathlib import Path
from typing import Any

from page import Target, number, replace_section, table, targets_table

DOCS = Path(__file__).resolve().parents[1] / "docs" / "evidence"
HEADING = "The pipeline"
DUMP = "kafka-dump-log"
READERS = {
    DUMP: "stock `kafka-dump-log --cluster-metadata-decoder`",
    "plain": "plain Python reader, one process",
}
STATES = {"log": "`state --log`", "archive": "`state --archive`"}
FASTER_THAN_DUMP = 3.0
JOBS = ("state", "audit", "timeline")
SMALL_SECONDS = 6.0
END_SECONDS, END_GROWTH = 5.0, 1.3
"""State at the end of an archive: time, and the longest time of all lengths divided by the shortest."""
PLAN_SECONDS, PLAN_MIB = 180.0, 4096.0
GROWTH = 1.25
"""Memory with a log of four times the length, through that with the log: noise of the collectors included."""
Found = dict[str, Any]


def commands(found: Found) -> list[tuple[str, Found]]:
    """Label and figures of each command that read the whole log."""
    named = [(text, found.get("readers", {}).get(name)) for name, text in READERS.items()]
    for what, figures in found.get("archive", {}).items():
        named.append((f"`archive`, local[2], {what}", figures))
    for what, figures in found.get("state", {}).items():
        name, _, partitions = what.partition(" ")
        named.append((f"{STATES[name]}, {partitions or 1} partition(s)", figures))
    for what, figures in found.get("jobs", {}).items():
        name, _, records = what.partition(" ")
        named.append((f"`{name}`, local[2], {number(int(records))} records", figures))
    return [(text, figures) for text, figures in named if figures is not None]


def through_dump(found: Found, figures: Found | None) -> float | None:
    """Ratio of its rate to that of Kafka's tool."""
    dump = found.get("readers", {}).get(DUMP)
    return None if dump is None or figures is None else figures["per_second"] / dump["per_second"]


def speed_table(found: Found) -> str:
    """Rates, processor time and memory."""
    rows = [
        [
            text,
            number(figures["per_second"]),
            number(through_dump(found, figures), 2),
            number(figures["seconds"]),
            number(figures["cpu_us_each"]),
            peaks(figures),
        ]
        for text, figures in commands(found)
    ]
    head = ["", "records/s", ": Kafka's", "seconds", "CPU µs a record", "memory at most, MB"]
    return table(head, rows)


def peaks(figures: Found) -> str:
    """Memory by role."""
    return ", ".join(f"{name} {number(size)}" for name, size in figures["peak_mb"].items())


def memory_table(found: Found) -> str:
    """Memory by length of the log."""
    rows = [
        [name, number(figures["records"]), peaks(figures)]
        for name, figures in found.get("memory", {}).items()
    ]
    return table(["command", "records", "memory at most, MB"], rows)


def ends_table(found: Found) -> str:
    """The state at the end of an archive by its length."""
    rows = [
        [number(each["records"]), number(each["seconds"]), number(each["cpu_seconds"]), peaks(each)]
        for each in found.get("ends", {}).values()
    ]
    return table(["records in the archive", "seconds", "CPU, s", "memory at most, MB"], rows)


def _of_ends(found: Found) -> list[Target]:
    """Targets of the state at the end of an archive."""
    times = [each["seconds"] for each in found.get("ends", {}).values()]
    slowest = max(times, default=None)
    ratio = max(times) / min(times) if len(times) > 1 else None
    text = "state at the end of an archive"
    return [
        (f"{text}: ≤ 5 s at every length", slowest, END_SECONDS, True),
        (f"{text}: slowest length ≤ {END_GROWTH} × the fastest", ratio, END_GROWTH, True),
    ]


def growth(found: Found, name: str) -> float | None:
    """Memory of a command with the longest log of that part, divided by that with the shortest."""
    sums = [
        sum(figures["peak_mb"].values())
        for what, figures in found.get("memory", {}).items()
        if what.startswith(name)
    ]
    return sums[-1] / sums[0] if len(sums) > 1 else None


def fastest(found: Found, part: str, prefix: str) -> Found | None:
    """The fastest run of a part over the numbers of partitions."""
    runs = [each for what, each in found.get(part, {}).items() if what.startswith(prefix)]
    return max(runs, key=lambda each: each["per_second"], default=None)


def targets(found: Found) -> str:
    """The targets and the measured values."""
    archive, state, archived_state = (
        fastest(found, part, prefix)
        for part, prefix in (("archive", ""), ("state", "log"), ("state", "archive"))
    )
    planned = found.get("plan", {}).get("plan")
    memory = None if planned is None else sum(planned["peak_mb"].values()) * 1e6 / 2**20
    checks: list[Target] = [
        (
            "archive: ≥ 3 × the rate of kafka-dump-log",
            through_dump(found, archive),
            FASTER_THAN_DUMP,
            False,
        ),
        (
            "state: ≥ 3 × the rate of kafka-dump-log",
            through_dump(found, state),
            FASTER_THAN_DUMP,
            False,
        ),
        (
            "state from an archive: ≥ 3 × the rate of kafka-dump-log",
            through_dump(found, archived_state),
            FASTER_THAN_DUMP,
            False,
        ),
        *_of_jobs(found),
        *_of_ends(found),
        ("plan: ≤ 180 s", None if planned is None else planned["seconds"], PLAN_SECONDS, True),
        ("plan: ≤ 4096 MiB", memory, PLAN_MIB, True),
    ]
    for name in ("archive", "state"):
        text = f"memory of {name}, log four times as long: ≤ {GROWTH} ×"
        checks.append((text, growth(found, name), GROWTH, True))
    return targets_table(checks)


def _of_jobs(found: Found) -> list[Target]:
    """Targets of the Spark jobs, start included."""
    runs: dict[str, list[Found]] = {}
    for what, figures in found.get("jobs", {}).items():
        runs.setdefault(what.partition(" ")[0], []).append(figures)
    checks: list[Target] = []
    for name in JOBS:
        longest = max(runs.get(name, []), key=lambda each: each["records"], default=None)
        text = f"{name} through Spark: ≥ 3 × the rate of kafka-dump-log"
        checks.append((text, through_dump(found, longest), FASTER_THAN_DUMP, False))
    small = min(runs.get("state", []), key=lambda each: each["records"], default=None)
    seconds = None if small is None else small["seconds"]
    checks.append(("state of 2 M records through Spark: ≤ 6 s", seconds, SMALL_SECONDS, True))
    return checks


def log_text(found: Found) -> str:
    """Description of the log's content."""
    log = found.get("log", {}).get("log")
    if log is None:
        return ""
    kinds = ", ".join(
        f"{number(100 * n / log['records'], 1)} % {k}" for k, n in log["kinds"].items()
    )
    return (
        f"The log has {number(log['records'])} records in {number(log['bytes'] / 2**20)} MiB, in segments of 64 MiB: {kinds}."
        " Batches hold 1 to 1000 records."
    )


def plan_text(found: Found) -> str:
    """One sentence about the plan."""
    planned = found.get("plan", {}).get("plan")
    if planned is None:
        return ""
    return (
        f"`plan` for {number(planned['partitions'])} partitions on {planned['brokers']} brokers in 12 racks, one broker drained,"
        f" reading the log and writing the plan included: {number(planned['seconds'])} s, {peaks(planned)} MB;"
        f" {number(planned['changed'])} partitions change."
    )


def section(found: Found) -> str:
    """The section about the pipeline, as Markdown, with its heading."""
    failed = "".join(f"\nNot measured: {name}: {why}.\n" for name, why in found["failed"].items())
    return f"""## {HEADING}

`make bench-pipeline` makes this section ({found["date"]}). Every command is a process of its own, its start included: a JVM
and Spark take some seconds of it, after `quorum-pipeline prepare`, which ran once before. {log_text(found)}
The partitions of `archive` are the tasks that read the log, in one micro batch; the Python workers decode and write. With its defaults
it makes tasks of 32 MiB. Those of `state` are pieces that are read at a time, in one process without Spark. `state`, `audit` and `timeline` with local[2] run on Spark.
What the workers hold counts pages that they share with each other as often as there are workers.

{speed_table(found)}

Memory while the log grows and the cluster stays as large as it is: the command itself, the JVM, Python workers together.

{memory_table(found)}

The state at the end of an archive that grows, by `state --archive` with its defaults. The archive keeps deltas and full states, so that a
query reads what changed since the last full state.

{ends_table(found)}

{plan_text(found)}

### Targets of the pipeline

{targets(found)}
{failed}"""


def write_alone(found: Found) -> None:
    """Write the section; the rest of the page is unchanged."""
    page = DOCS / "benchmarks.md"
    page.write_text(replace_section(page.read_text(), HEADING, section(found)))
    print(section(found))
