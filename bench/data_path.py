"""The data path of brokers, compared with stock brokers: `make bench-broker`.

Three brokers of each kind on one controller of ours, one kind after the other, with the same stock clients: replication factor 3,
`min.insync.replicas=2`, acks=all. Producers are `kafka-producer-perf-test`. Consumers read without a group
(`bench/java/AssignedConsumer.java`). The section of docs/evidence/benchmarks.md is `data_report.py`'s.

    python bench/data_path.py --megabytes 200 --only throughput,failover
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import interpreter

REPOSITORY = Path(__file__).resolve().parents[1]
PRODUCER = "org.apache.kafka.tools.ProducerPerformance"
TOPICS = "org.apache.kafka.tools.TopicCommand"
SCENES = (
    ("1 KiB, 3 partitions", 1024, 3, "none"),
    ("1 KiB, 100 partitions", 1024, 100, "none"),
    ("100 B, 3 partitions", 100, 3, "none"),
    ("10 KB, 3 partitions", 10_000, 3, "none"),
    ("1 KiB, lz4, 3 partitions", 1024, 3, "lz4"),
)
IDLE_PARTITIONS = 2_000
IDLE_SECONDS = 30.0
PARTS = ("throughput", "failover", "restart", "idle")
_SENT = re.compile(
    r"records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, .*?([\d.]+) ms 50th, .*?([\d.]+) ms 99th,"
)
_TOOL_SECONDS = 280


def say(text: str) -> None:
    """Print progress."""
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


class Measuring:
    """Measurements on running brokers of one kind."""

    def __init__(self, brokers: Any, megabytes: int) -> None:
        from support.stock_kafka import java

        self.brokers, self.megabytes, self._java = brokers, megabytes, java
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in brokers.ports.values())
        self._number = 0

    # -- tools

    def _tool(self, *arguments: str, heap_mb: int = 512, short_lived: bool = True) -> str:
        command = self._java(*arguments, heap_mb=heap_mb, short_lived=short_lived)
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]}: {(done.stdout + done.stderr)[-800:]}")
        return done.stdout

    def topic(self, partitions: int) -> str:
        """Create a topic with replicas on all brokers."""
        self._number += 1
        name = f"bench-{self._number}"
        self._tool(
            TOPICS, "--bootstrap-server", self.bootstrap, "--create", "--topic", name, "--partitions", str(partitions),
            "--replication-factor", "3", "--config", "min.insync.replicas=2",
        )  # fmt: skip
        return name

    def produce(self, topic: str, size: int, records: int, codec: str) -> dict[str, float]:
        """One producer without a rate limit."""
        properties = (
            f"bootstrap.servers={self.bootstrap}",
            "acks=all",
            f"compression.type={codec}",
        )
        said = self._tool(
            PRODUCER, "--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1",
            "--producer-props", *properties, short_lived=False,
        )  # fmt: skip
        found = _SENT.search(said.strip().splitlines()[-1])
        assert found is not None, said[-400:]
        rate, mean, p50, p99 = map(float, found.groups())
        return {"mb_per_second": rate, "mean_ms": mean, "p50_ms": p50, "p99_ms": p99}

    def consume(self, topic: str, records: int) -> float:
        """Rate of one consumer in MB/s."""
        from support.stock_kafka import compiled, java

        classes = compiled(REPOSITORY / "bench" / "java" / "AssignedConsumer.java")
        command = java(
            "AssignedConsumer", self.bootstrap, topic, str(records), heap_mb=512, short_lived=False, classes=classes
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS)
        if done.returncode:
            raise RuntimeError(f"consumer: {(done.stdout + done.stderr)[-800:]}")
        _, size, seconds = done.stdout.split()
        return float(size) / 1e6 / float(seconds)

    # -- parts

    def throughput(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Each workload on its own topic, after a warm-up."""
        from data_clusters import cpu_seconds, resident_mb

        self.produce(self.topic(3), 1024, 20_000, "none")
        for name, size, partitions, codec in SCENES:
            megabytes = self.megabytes if size >= 1000 else max(1, self.megabytes // 4)
            records = megabytes * 1_000_000 // size
            topic = self.topic(partitions)
            before = cpu_seconds(self.brokers)
            found = self.produce(topic, size, records, codec)
            found["cpu_seconds_per_mb"] = (cpu_seconds(self.brokers) - before) / megabytes
            found["consumer_mb_per_second"] = self.consume(topic, records)
            found["resident_mb"] = resident_mb(self.brokers)
            yield name, found

    def failover(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Time from kill -9 of a leader until a record is acknowledged."""
        topic = self.topic(1)
        self.produce(topic, 1024, 1_000, "none")
        leader = self._leader(topic)
        began = time.monotonic()
        self.brokers.kill(leader)
        self._produced(topic, besides=leader)
        yield "kill -9 of the leader", {"seconds": time.monotonic() - began}
        self.brokers.start_again(leader)

    def restart(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Time from kill -9 of a broker with a log until it leads the only replica of a partition again."""
        broker_id = min(self.brokers.ports)
        self._number += 1
        topic = f"bench-{self._number}"
        self._tool(
            TOPICS, "--bootstrap-server", self.bootstrap, "--create", "--topic", topic, "--replica-assignment", str(broker_id)
        )  # fmt: skip
        records = self.megabytes * 1_000_000 // 1024
        self.produce(topic, 1024, records, "none")
        self.brokers.kill(broker_id)
        began = time.monotonic()
        self.brokers.start_again(broker_id)
        self._produced(topic)
        yield f"{self.megabytes} MB", {"seconds": time.monotonic() - began}

    def idle(self) -> Iterator[tuple[str, dict[str, float]]]:
        """CPU time of idle partitions."""
        from data_clusters import cpu_seconds

        for _ in range(IDLE_PARTITIONS // 500):
            self.topic(500)
        time.sleep(10)  # background work after the creation has no end that can be awaited
        before = cpu_seconds(self.brokers)
        time.sleep(IDLE_SECONDS)
        share = (cpu_seconds(self.brokers) - before) / IDLE_SECONDS / len(self.brokers.ports)
        yield f"{IDLE_PARTITIONS} partitions", {"cores_per_broker": share}

    # -- one record

    def _leader(self, topic: str) -> int:
        from data_probe import metadata_of

        return next(
            found.leader
            for port in self.brokers.ports.values()
            if (found := metadata_of(port, topic))
        )

    def _produced(self, topic: str, besides: int | None = None) -> None:
        from data_probe import produce_one

        ports = {each: port for each, port in self.brokers.ports.items() if each != besides}
        deadline = time.monotonic() + _TOOL_SECONDS
        while not any(produce_one(ports, port, topic) for port in ports.values()):
            if time.monotonic() > deadline:
                raise RuntimeError("no record is acknowledged")
            time.sleep(0.02)


def measure(
    root: Path, megabytes: int, only: tuple[str, ...], save: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Measure both kinds one after the other; `save` is called after each figure."""
    from data_clusters import Ours, Stock

    found: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}", "megabytes": megabytes, "failed": {}
    }  # fmt: skip
    for kind in (Stock, Ours):
        for part in only:
            # Each part has its own brokers: leftovers of the previous part do not affect it.
            folder = Path(tempfile.mkdtemp(dir=root))
            brokers = kind(folder)
            try:
                brokers.start()
                for name, figures in getattr(Measuring(brokers, megabytes), part)():
                    found.setdefault(kind.name, {}).setdefault(part, {})[name] = figures
                    say(f"{kind.name}, {part}, {name}: {json.dumps(figures)}")
                    save(found)
            except Exception as error:
                found["failed"][f"{kind.name}, {part}"] = repr(error)[:300]
                say(f"{kind.name}, {part} failed: {error!r}")
                save(found)
            finally:
                brokers.stop()
                shutil.rmtree(folder, ignore_errors=True)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=500, help="written in each env")
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    parser.add_argument("--note", default="", help="what a reader has to know of this run")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench-broker.json")
    arguments = parser.parse_args()
    only = tuple(each for each in arguments.only.split(",") if each)
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)

    def save(found: dict[str, Any]) -> None:
        path.write_text(json.dumps(found, indent=1))

    with tempfile.TemporaryDirectory() as root:
        found = measure(Path(root), arguments.megabytes, only, save)
    found["note"] = arguments.note
    save(found)
    if arguments.report:
        import data_report

        data_report.write(found)


if __name__ == "__main__":
    interpreter.ensure()
    main()
