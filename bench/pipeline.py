"""The pipeline over a long log: archive, state, audit, timeline and plan, beside stock Kafka's dump tool and a plain reader in Python.

Part of `make bench`. `make bench-pipeline` runs it alone and writes only its section of docs/evidence/benchmarks.md:

    python bench/pipeline.py [--records 10000000] [--plan 1000000] [--only readers,archive,state,jobs,plan,memory,ends]

The log is written once (`long_history.py`), read by all, and kept in the cache for the next time (METADATAQUORUM_CACHE, or
~/.cache/metadataquorum; 3 GB). A part that fails or exceeds the time limit is reported as not measured; the others continue. It takes
about twenty-five minutes on two cores, the first time. Needs Java 17, and about 6 GB on the disk.
"""

import argparse
import hashlib
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY / "tests") not in sys.path:
    sys.path.insert(0, str(REPOSITORY / "tests"))

import interpreter  # noqa: E402
import long_history  # noqa: E402
import pipeline_report  # noqa: E402
from growing_quorum import say  # noqa: E402
from long_history import WrittenLog  # noqa: E402
from parts import Work, run_parts  # noqa: E402
from process_tree import measured  # noqa: E402

from support import stock_kafka  # noqa: E402

RECORDS = 10_000_000
PLAN_PARTITIONS = 1_000_000
PLAN_BROKERS = 500
DRAINED = 17
PARTITIONS = (1, 2, 4)
SHARES_FOR_MEMORY = (0.1, 0.4)
"""Logs of a million and of four million records, if the long one has ten."""
SHARES_FOR_ENDS = (0.1, 0.4, 1.6, 4.0)
"""Lengths of an archive that grows, at whose end the state is queried: 1, 4, 16 and 40 million records."""
SMALL_RECORDS = 2_000_000
"""Number of records of a log for which Spark's start takes most of the time."""
MASTER = "local[2]"
WAIT_SECONDS = 600.0
BUDGET_SECONDS = 40 * 60.0
_CODEC = REPOSITORY / "node" / "quorum_node" / "records"
DUMP_HEAP_MB = 1024
Found = Iterable[tuple[str, dict[str, Any]]]


class Logs:
    """Logs by length, each written once, in a directory named by the hash of its inputs."""

    def __init__(self) -> None:
        made_by = [Path(long_history.__file__), *sorted(_CODEC.rglob("*.py"))]
        text = b"".join(path.read_bytes() for path in made_by)
        self._root = stock_kafka.cache_directory() / "bench-logs" / hashlib.sha256(text).hexdigest()
        for other in self._root.parent.glob("*"):
            if other != self._root:
                shutil.rmtree(other)

    def of(self, records: int) -> WrittenLog:
        """The log with that many records."""
        root = self._root / str(records)
        about = root / "about.json"
        if not about.exists():
            say(f"writing a log of {records:,} records, once: about {records // 100_000} s")
            shutil.rmtree(root, ignore_errors=True)
            written = long_history.write(root / "__cluster_metadata-0", records)
            about.write_text(json.dumps(asdict(written) | {"directory": None}))
        found = json.loads(about.read_text())
        return WrittenLog(**found | {"directory": root / "__cluster_metadata-0"})


def measure(
    records: int = RECORDS,
    plan_partitions: int = PLAN_PARTITIONS,
    only: tuple[str, ...] = (),
    save: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Results of all parts by part and figure; `save` is called after each addition."""
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "failed": {}}
    deadline = time.monotonic() + BUDGET_SECONDS
    logs = Logs()

    def took(name: str, what: str, figures: dict[str, Any]) -> None:
        found[name][what] = figures
        say(f"{name}, {what}: {json.dumps(figures)}")
        save(found)

    parts: dict[str, Work] = {
        "log": lambda root: described(logs.of(records)),
        "readers": lambda root: readers(logs.of(records)),
        "archive": lambda root: archives(root, logs.of(records)),
        "state": lambda root: states(root, logs.of(records)),
        "jobs": lambda root: jobs([logs.of(SMALL_RECORDS), logs.of(records)]),
        "memory": lambda root: memory(root, [logs.of(int(n * records)) for n in SHARES_FOR_MEMORY]),
        "plan": lambda root: plan(root, plan_partitions),
        "ends": lambda root: ends(root, logs, records),
    }
    wanted = ("log", *only) if only else ()
    run_parts("pipeline", parts, found, wanted, deadline, took)
    return found


def described(log: WrittenLog) -> Found:
    """Description of the log."""
    yield "log", {"records": log.records, "bytes": log.size_bytes, "kinds": log.kinds}


def readers(log: WrittenLog) -> Found:
    """Stock Kafka's tool and a plain loop; their output is discarded."""
    files = ",".join(str(path) for path in sorted(log.directory.glob("*.log")))
    dump = stock_kafka.java(
        *(stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", files),
        heap_mb=DUMP_HEAP_MB,
        short_lived=False,
    )
    say(f"kafka-dump-log reads {log.records:,} records")
    yield "kafka-dump-log", measured(dump, WAIT_SECONDS).figures(log.records)
    say("the plain reader reads the same")
    plain = [sys.executable, str(REPOSITORY / "bench" / "plain_reader.py"), str(log.directory)]
    yield "plain", measured(plain, WAIT_SECONDS).figures(log.records)


def command(*arguments: object) -> list[str]:
    """Run a command of the pipeline in its own process, as users do."""
    return [sys.executable, "-m", "quorum_pipeline", *map(str, arguments)]


def archived(log: WrittenLog, to: Path, partitions: int | None = None) -> dict[str, Any]:
    """Write a new archive with that many tasks; by default with the command's own number."""
    shutil.rmtree(to, ignore_errors=True)
    tasks = f"{partitions} partition(s)" if partitions else "the defaults"
    say(f"archiving {log.records:,} records, {tasks}")
    options = ["--log", log.directory, "--to", to, "--master", MASTER]
    if partitions:
        options += ["--max-rows", log.records, "--span-bytes", 1 + log.size_bytes // partitions]
    figures = measured(command("archive", *options), WAIT_SECONDS).figures(log.records)
    files = [path for path in to.glob("records/*/*") if path.is_file()]
    return figures | {"bytes": sum(path.stat().st_size for path in files)}


def archives(root: Path, log: WrittenLog) -> Found:
    """Archives of the same log by number of partitions."""
    say("what is done once after installation")
    measured(command("prepare"), WAIT_SECONDS)
    for partitions in PARTITIONS:
        yield f"{partitions} partition(s)", archived(log, root / "archive", partitions)
    yield "defaults", archived(log, root / "archive")


def states(root: Path, log: WrittenLog) -> Found:
    """The state at the end, from the log and from an archive, by the number of parallel tasks."""

    def state(partitions: int, *options: object) -> dict[str, Any]:
        say(f"state of {log.records:,} records, {options[0]}, {partitions} partition(s)")
        run = command("state", *options, "--partitions", partitions, "--master", "none")
        return measured(run, WAIT_SECONDS).figures(log.records)

    for partitions in PARTITIONS:
        yield f"log {partitions}", state(partitions, "--log", log.directory)
    archived(log, root / "archive")
    for partitions in PARTITIONS:
        yield f"archive {partitions}", state(partitions, "--archive", root / "archive")


def jobs(logs: list[WrittenLog]) -> Found:
    """Jobs on executors, through Spark for any length, by job and number of records."""
    for log in logs:
        for name, place in (
            ("state", ["--log", log.directory]),
            ("audit", [log.directory]),
            ("timeline", ["--log", log.directory]),
        ):
            say(f"{name} of {log.records:,} records on Spark")
            usage = measured(command(name, *place, "--master", MASTER), WAIT_SECONDS)
            yield f"{name} {log.records}", usage.figures(log.records)


def memory(root: Path, logs: list[WrittenLog]) -> Found:
    """Peak memory of the processes for logs of growing length and a cluster of constant size."""
    for log in logs:
        yield f"archive, {log.records}", archived(log, root / "archive")
        usage = measured(command("state", "--log", log.directory), WAIT_SECONDS)
        yield f"state, {log.records}", usage.figures(log.records)


def ends(root: Path, logs: Logs, records: int) -> Found:
    """The state at the end of one archive that grows, by its length. The cluster has the same size at every length."""
    lengths = [int(share * records) for share in SHARES_FOR_ENDS]
    log, archive = logs.of(lengths[-1]), root / "archive"
    for length in lengths:
        grown = linked(log, root / "log", length)
        say(f"archiving up to record {grown:,}")
        run = command("archive", "--log", root / "log", "--to", archive, "--master", MASTER)
        measured(run, WAIT_SECONDS)
        say(f"state at the end of an archive of {grown:,} records")
        usage = measured(command("state", "--archive", archive), WAIT_SECONDS)
        yield str(length), usage.figures(grown)


def linked(log: WrittenLog, to: Path, records: int) -> int:
    """Link the segments of a log that begin below that offset; returns the number of records in them."""
    to.mkdir(exist_ok=True)
    segments = sorted(log.directory.glob("*.log"))
    offsets = [int(each.stem) for each in segments]
    for segment, base_offset in zip(segments, offsets, strict=True):
        target = to / segment.name
        if base_offset < records and not target.exists():
            target.hardlink_to(segment)
    return min((each for each in offsets if each >= records), default=log.records)


def plan(root: Path, partitions: int) -> Found:
    """Plan that drains a broker. The existing placement is random and ignores racks."""
    say(f"writing a log with {partitions:,} partitions")
    log = long_history.write_topics(root / "__cluster_metadata-0", partitions, PLAN_BROKERS)
    wanted = ("--drain", DRAINED, "--output", root / "plan.json")
    usage = measured(command("plan", "--log", log.directory, *wanted), WAIT_SECONDS)
    moved = len(json.loads((root / "plan.json").read_text())["partitions"])
    extra = {"partitions": partitions, "brokers": PLAN_BROKERS, "changed": moved}
    yield "plan", usage.figures(log.records) | extra


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=RECORDS, help="of the log")
    parser.add_argument("--plan", type=int, default=PLAN_PARTITIONS, help="partitions to plan")
    parser.add_argument(
        "--only", default="", help="readers, archive, state, jobs, memory, plan, ends"
    )
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench.json")
    arguments = parser.parse_args()
    # Child processes have to end, too, when a time limit ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(path.read_text()) if path.exists() else {}
    before = document.get("pipeline", {})

    def save(found: dict[str, Any]) -> None:
        document["pipeline"] = {**before, **found}
        path.write_text(json.dumps(document, indent=1))

    only = tuple(name for name in arguments.only.split(",") if name)
    save(measure(arguments.records, arguments.plan, only, save))
    if arguments.report:
        pipeline_report.write_alone(document["pipeline"])


if __name__ == "__main__":
    interpreter.ensure()
    main()
