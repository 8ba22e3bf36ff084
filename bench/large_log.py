"""A large log: memory of its records, duration of a start, and duration of a new replica's join.

Owns the comparison of starts with a stock Kafka controller that has the same records in its log. Every wait has a timeout. Results are
plain dictionaries, for growth_report.py.
"""

import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import big_log
from contender import Cluster, cpu_seconds, resident_mb
from growing_quorum import say
from kafka_client import Address
from kafka_controllers import LoneKafka
from kafka_writes import WRITE_VERSION, write_many, write_request

from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.schema.schema import MalformedMessage
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask

KEYS = 100_000
MILLION = 1_000_000
WAIT_SECONDS = 180.0
SNAPSHOT_EVERY_BYTES = 20 << 20
KEEP_LOG = {"metadata.max.retention.bytes": "-1", "metadata.max.retention.ms": "-1"}
SNAPSHOT_BYTES = "metadata.log.max.record.bytes.between.snapshots"
SNAPSHOTS = KEEP_LOG | {
    "metadata.log.max.snapshot.interval.ms": "0",
    SNAPSHOT_BYTES: str(SNAPSHOT_EVERY_BYTES),
}
NO_SNAPSHOTS = SNAPSHOTS | {SNAPSHOT_BYTES: str(1 << 40)}
SETTINGS = {"no snapshot": NO_SNAPSHOTS, "snapshots every 20 MiB": SNAPSHOTS}
Found = Iterable[tuple[str, dict[str, Any]]]


def memory(root: Path) -> Found:
    """Resident memory with a million keys, and with a million records of few keys."""
    for what, keys in (("distinct keys", MILLION), ("records of 100 keys", 100)):
        with LocalQuorum(root / f"memory-{keys}", nodes=1, properties=NO_SNAPSHOTS) as quorum:
            node = lone_node(quorum)
            before = resident_mb(pid_of(node))
            node.terminate()
            written = big_log.extend(log_folder(node), big_log.RECORD_BYTES * MILLION, keys)
            node.start()
            await_value(quorum)
            grown = resident_mb(pid_of(node)) - before
        yield what, {"mb_per_million": grown * MILLION / written, "records": written}


class OurStart:
    """One of our nodes with a log that was extended while it was down."""

    def __init__(self, root: Path, log_bytes: int) -> None:
        self._quorum = LocalQuorum(root, nodes=1, properties=NO_SNAPSHOTS)
        self._node = lone_node(self._quorum)
        self.address = ("127.0.0.1", self._node.port)
        self.log_folder = log_folder(self._node)
        self._node.terminate()
        big_log.extend(self.log_folder, log_bytes, KEYS)

    def start(self, properties: dict[str, str]) -> dict[str, float]:
        """Start it; returns the times until the first commit and until the whole log is replayed. It keeps running."""
        self._node.overrides = dict(properties)
        began = time.monotonic()
        self._node.start()
        first_commit = await_write(self.address) - began
        await_value(self._quorum)
        pid = pid_of(self._node)
        return {
            "first_commit_s": first_commit,
            "ready_s": time.monotonic() - began,
            "cpu_s": cpu_seconds(pid),
            "resident_mb": resident_mb(pid),
        }

    def stop(self) -> None:
        """SIGTERM."""
        self._node.terminate()

    def close(self) -> None:
        """End the running process."""
        self._quorum.close()


class KafkaStart:
    """The same for a stock controller, which commits only after it has replayed the whole log."""

    def __init__(self, root: Path, log_bytes: int) -> None:
        self._kafka = LoneKafka(root, properties=NO_SNAPSHOTS)
        self._kafka.create()
        self.address: Address = self._kafka.addresses()[0]
        self.log_folder = self._kafka.log_folder
        await_write(self.address)
        self.stop()
        big_log.extend(self.log_folder, log_bytes, KEYS)

    def start(self, properties: dict[str, str]) -> dict[str, float]:
        """Start it; returns the time until the first commit. It keeps running."""
        self._kafka.properties = dict(properties)
        self._kafka.write_config(0)
        began = time.monotonic()
        self._kafka.launch(0)
        first_commit = await_write(self.address) - began
        pid = self._kafka.processes[0].pid
        return {
            "first_commit_s": first_commit,
            "ready_s": first_commit,
            "cpu_s": cpu_seconds(pid),
            "resident_mb": resident_mb(pid),
        }

    def stop(self) -> None:
        """SIGTERM."""
        stop(self._kafka)

    def close(self) -> None:
        """End whatever runs."""
        self._kafka.stop()


def start(root: Path, log_bytes: int, repeats: int) -> Found:
    """Time from the start of the process until the node commits and has replayed everything.

    The first start after the log was extended checks the whole log and is not counted. Then both systems start in turns:
    without a snapshot, and with the snapshot and the log behind it that Kafka's defaults produce.
    """
    systems: dict[str, OurStart | KafkaStart] = {}
    try:
        for name, kind in (("ours", OurStart), ("kafka", KafkaStart)):
            systems[name] = kind(root / name, log_bytes)
            say(f"start: {name} has its log, first start")
            first = systems[name].start(NO_SNAPSHOTS)
            systems[name].stop()
            yield f"{name}, first", first
        for setting, properties in SETTINGS.items():
            if setting != "no snapshot":
                for name, system in systems.items():
                    system.start(properties)
                    provoke_snapshot(system)
                    say(f"start: {name} has a snapshot")
                    system.stop()
            rounds = [in_turns(systems, properties) for _ in range(repeats)]
            for name in systems:
                found = [each[name] for each in rounds]
                yield (
                    f"{name}, {setting}",
                    {key: median(each[key] for each in found) for key in found[0]},
                )
    finally:
        for system in systems.values():
            system.close()


def in_turns(
    systems: dict[str, OurStart | KafkaStart], properties: dict[str, str]
) -> dict[str, dict[str, float]]:
    """One start of each system."""
    found = {}
    for name, system in systems.items():
        found[name] = system.start(properties)
        system.stop()
    return found


def provoke_snapshot(system: OurStart | KafkaStart) -> None:
    """Write enough records for a snapshot, and wait for it. Kafka writes none at start."""
    for number in range(SNAPSHOT_EVERY_BYTES // (1000 * big_log.RECORD_BYTES) + 10):
        await_write(system.address, write_many(f"fed-{number}", 1000))
    await_snapshot(system.log_folder)


def join(root: Path, log_bytes: int) -> Found:
    """Join of an empty replica to a leader with a large log: from a snapshot and the log behind it, and from the whole log."""
    for setting, properties in (("log", NO_SNAPSHOTS), ("snapshot", SNAPSHOTS)):
        with LocalQuorum(root / setting, nodes=1, properties=properties) as quorum:
            node = lone_node(quorum)
            node.terminate()
            big_log.extend(log_folder(node), log_bytes, KEYS)
            node.start()
            await_value(quorum)
            if setting == "snapshot":
                quorum.request("POST", "/v1/snapshot?timeoutMs=120000", 1, timeout=130.0)
                await_snapshot(log_folder(node))
            newcomer = quorum.add_node(2)
            began = time.monotonic()
            newcomer.start()
            wait_until(lambda: is_ready(quorum, 2), "the new voter is ready", WAIT_SECONDS)
            await_value(quorum, 2)
            seconds = time.monotonic() - began
            fetched = sum(file.stat().st_size for file in log_folder(newcomer).glob("*.log"))
            loaded = sum(file.stat().st_size for file in log_folder(newcomer).glob("*.checkpoint"))
        found = {"seconds": seconds, "log_mib": fetched / 2**20, "snapshot_mib": loaded / 2**20}
        shutil.rmtree(root / setting)
        yield setting, found


def await_snapshot(folder: Path) -> None:
    """Wait for a snapshot of more than a MiB: every log begins with a small one that contains the voters."""
    wait_until(
        lambda: any(file.stat().st_size > 1 << 20 for file in folder.glob("*.checkpoint")),
        f"a snapshot in {folder}",
        WAIT_SECONDS,
    )


def is_ready(quorum: LocalQuorum, node_id: int) -> bool:
    """Whether a node has caught up."""
    answer = quorum.request("GET", "/readyz", node_id)
    return answer is not None and answer.status_code == 200


def lone_node(quorum: LocalQuorum) -> LocalNode:
    """A formed quorum of one node with one value."""
    quorum.form()
    node = quorum.nodes[1]
    await_write(("127.0.0.1", node.port))
    return node


def log_folder(node: LocalNode) -> Path:
    """Folder of its log."""
    return node.data_dir / "__cluster_metadata-0"


def pid_of(node: LocalNode) -> int:
    """Process id of the running process."""
    assert node.process is not None
    return node.process.pid


def await_write(address: Address, body: IncrementalAlterConfigsRequest | None = None) -> float:
    """Wait for a committed write; returns its monotonic time."""
    request = body or write_request("bench-start", "v")

    def committed() -> bool:
        try:
            answer = ask(address, INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, request, 10.0)
        except (OSError, MalformedMessage):
            return False
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        return answer.responses[0].error_code == 0

    wait_until(committed, f"{address} commits", WAIT_SECONDS)
    return time.monotonic()


def await_value(quorum: LocalQuorum, node_id: int = 1) -> None:
    """Wait until the whole log is in the image, by a linearizable read of the last value."""
    path = "/v1/configs/broker/-/bench-start?consistency=linearizable&timeoutMs=5000"

    def read() -> bool:
        answer = quorum.request("GET", path, node_id, timeout=6.0)
        return answer is not None and answer.is_success

    wait_until(read, "a linearizable read", WAIT_SECONDS)


def stop(cluster: Cluster) -> None:
    """Terminate it and wait for its end."""
    cluster.signal(0, signal.SIGTERM)
    cluster.processes[0].wait(120)
