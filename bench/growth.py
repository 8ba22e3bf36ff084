"""What grows: voters, observers, records in memory, the log that is there at a start or for a newcomer.

Part of `make bench`; by itself: `python bench/growth.py [--log-mib 1024] [--only voters,start]`. Our nodes throughout;
start-up also of a stock Kafka controller with the same records in its log. Results are plain dictionaries, for
bench/growth_report.py.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

import big_log  # noqa: E402
from contender import Cluster, python, resident_mb, run_json  # noqa: E402
from kafka_client import Address  # noqa: E402
from kafka_controllers import LoneKafka  # noqa: E402
from kafka_writes import WRITE_VERSION, write_request  # noqa: E402

from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS  # noqa: E402
from quorum_node.protocol.configs import IncrementalAlterConfigsResponse  # noqa: E402
from quorum_node.schema.schema import MalformedMessage  # noqa: E402
from support.local_quorum import LocalNode, LocalQuorum, wait_until  # noqa: E402
from support.one_request import ask  # noqa: E402

VOTERS = (1, 3, 5, 7)
OBSERVERS = (0, 10, 100)
KEYS = 100_000
MILLION = 1_000_000
LONG_SECONDS = 600.0
KEEP_LOG = {"metadata_max_retention_bytes": "-1", "metadata_max_retention_ms": "-1"}
NO_SNAPSHOTS = {
    "metadata_log_max_record_bytes_between_snapshots": str(1 << 40),
    "metadata_log_max_snapshot_interval_ms": "0",
}
Work = Callable[[Path], dict[str, Any]]


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} growth: {text}", flush=True)


def load(quorum: LocalQuorum, clients: int, seconds: float) -> dict[str, Any]:
    """Writes to the leader, closed loop."""
    address = f"127.0.0.1:{quorum.leader.port}"
    options = ["--address", address, "--clients", str(clients), "--seconds", str(seconds)]
    return run_json(python("kafka_load.py", *options), seconds + 60)


def voters(root: Path, seconds: float = 4.0) -> dict[str, Any]:
    """One client's latency and a hundred clients' throughput, by number of voters."""
    found = {}
    for count in VOTERS:
        with LocalQuorum(root / f"voters-{count}", nodes=count) as quorum:
            quorum.form()
            one, many = load(quorum, 1, seconds), load(quorum, 100, seconds)
        found[str(count)] = {"p50_ms": one["p50_ms"], "per_second": many["per_second"]}
        say(f"{count} voters: p50 {one['p50_ms']} ms, {many['per_second']:.0f}/s")
    return found


def observers(root: Path, seconds: float = 4.0) -> dict[str, Any]:
    """The same with three voters, by number of observers that follow."""
    found = {}
    for count in OBSERVERS:
        with LocalQuorum(root / f"observers-{count}") as quorum:
            quorum.form()
            followers = start_observers(quorum, count) if count else None
            try:
                one, many = load(quorum, 1, seconds), load(quorum, 100, seconds)
            finally:
                if followers is not None:
                    followers.communicate(timeout=30)
        found[str(count)] = {"p50_ms": one["p50_ms"], "per_second": many["per_second"]}
        say(f"{count} observers: p50 {one['p50_ms']} ms, {many['per_second']:.0f}/s")
    return found


def start_observers(quorum: LocalQuorum, count: int) -> subprocess.Popen[str]:
    """A process with `count` observers that all have had an answer."""
    address = f"127.0.0.1:{quorum.leader.port}"
    options = ["--address", address, "--count", str(count), "--cluster-id", quorum.cluster_id]
    process = subprocess.Popen(
        python("light_observers.py", *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError(f"observers ended: {process.wait(10)}")
    return process


def memory(root: Path) -> dict[str, Any]:
    """Resident memory by records: a million keys, and a million records of one key."""
    found = {}
    for what, keys in (("distinct keys", MILLION), ("one key", 1)):
        with LocalQuorum(
            root / f"memory-{keys}", nodes=1, properties=KEEP_LOG | NO_SNAPSHOTS
        ) as quorum:
            node = lone_node(quorum)
            before = resident_mb(pid_of(node))
            node.terminate()
            written = big_log.extend(log_folder(node), record_bytes() * MILLION, max(keys, 100))
            node.start()
            await_value(quorum)
            grown = resident_mb(pid_of(node)) - before
            found[what] = {"mb_per_million": grown * MILLION / written, "records": written}
        say(f"memory, {what}: {found[what]['mb_per_million']:.0f} MB per million records")
    return found


def record_bytes() -> int:
    """What a record takes in the log."""
    return 285


def start(root: Path, log_bytes: int) -> dict[str, Any]:
    """From the start of the process to its first commit and first linearizable read, by system and setting."""
    found: dict[str, Any] = {"log_bytes": log_bytes}
    for setting, properties in (("snapshots", KEEP_LOG), ("no snapshots", KEEP_LOG | NO_SNAPSHOTS)):
        found[f"kafka, {setting}"] = start_kafka(root / f"kafka-{setting}", log_bytes, properties)
        say(f"start, Kafka, {setting}: {found[f'kafka, {setting}']}")
        found[f"ours, {setting}"] = start_ours(root / f"ours-{setting}", log_bytes, properties)
        say(f"start, ours, {setting}: {found[f'ours, {setting}']}")
    return found


def start_ours(root: Path, log_bytes: int, properties: dict[str, str]) -> dict[str, float]:
    """The second start of a node whose log was extended before the first."""
    with LocalQuorum(root, nodes=1, properties=properties) as quorum:
        node = lone_node(quorum)
        node.terminate()
        big_log.extend(log_folder(node), log_bytes, KEYS)
        node.start()
        await_value(quorum)
        settle(log_folder(node), "no snapshots" not in root.name)
        node.terminate()
        began = time.monotonic()
        node.start()
        first_write = await_write(("127.0.0.1", node.port)) - began
        await_value(quorum)
        return {
            "first_commit_s": first_write,
            "first_read_s": time.monotonic() - began,
            "resident_mb": resident_mb(pid_of(node)),
        }


def start_kafka(root: Path, log_bytes: int, properties: dict[str, str]) -> dict[str, float]:
    """The same of a stock controller."""
    kafka = LoneKafka(root, properties=properties)
    try:
        kafka.create()
        await_write(kafka.addresses()[0])
        stop(kafka)
        big_log.extend(kafka.log_folder, log_bytes, KEYS)
        kafka.launch(0)
        await_write(kafka.addresses()[0])
        settle(kafka.log_folder, "no snapshots" not in root.name)
        stop(kafka)
        began = time.monotonic()
        kafka.launch(0)
        first_write = await_write(kafka.addresses()[0]) - began
        return {"first_commit_s": first_write, "resident_mb": resident_mb(kafka.processes[0].pid)}
    finally:
        kafka.stop()


def join(root: Path, log_bytes: int) -> dict[str, Any]:
    """An empty replica beside a leader with a large log: by snapshot and tail, and by the whole log."""
    found: dict[str, Any] = {"log_bytes": log_bytes}
    for setting, properties in (("snapshot", {}), ("log", KEEP_LOG | NO_SNAPSHOTS)):
        with LocalQuorum(root / f"join-{setting}", nodes=1, properties=properties) as quorum:
            node = lone_node(quorum)
            node.terminate()
            big_log.extend(log_folder(node), log_bytes, KEYS)
            node.start()
            await_value(quorum)
            if setting == "snapshot":
                await_prefix_gone(log_folder(node))
            newcomer = quorum.add_node(2)
            began = time.monotonic()
            newcomer.start()
            quorum.wait_caught_up(2)
            await_value(quorum, 2)
            found[setting] = {"seconds": time.monotonic() - began}
        say(f"join by {setting}: {found[setting]['seconds']:.1f} s")
    return found


def lone_node(quorum: LocalQuorum) -> LocalNode:
    """The only node, formed, with a first value."""
    quorum.form()
    node = quorum.nodes[1]
    await_write(("127.0.0.1", node.port))
    return node


def log_folder(node: LocalNode) -> Path:
    """Where its log is."""
    return node.data_dir / "__cluster_metadata-0"


def pid_of(node: LocalNode) -> int:
    """Of the running process."""
    assert node.process is not None
    return node.process.pid


def await_write(address: Address) -> float:
    """When the first write was committed (monotonic)."""

    def committed() -> bool:
        try:
            body = write_request("bench-start", "v")
            answer = ask(address, INCREMENTAL_ALTER_CONFIGS, WRITE_VERSION, body, 5.0)
        except (OSError, MalformedMessage):
            return False
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        return answer.responses[0].error_code == 0

    wait_until(committed, f"{address} commits", LONG_SECONDS)
    return time.monotonic()


def await_value(quorum: LocalQuorum, node_id: int = 1) -> None:
    """Until the whole log is in the image: a linearizable read of what was written last."""
    path = "/v1/configs/broker/-/bench-start?consistency=linearizable&timeoutMs=5000"

    def read() -> bool:
        answer = quorum.request("GET", path, node_id)
        return answer is not None and answer.is_success

    wait_until(read, "a linearizable read", LONG_SECONDS)


def settle(folder: Path, snapshots: bool) -> None:
    """Until the snapshot that a long log calls for is there."""
    if snapshots:
        wait_until(
            lambda: any(file.stat().st_size > 1 << 20 for file in folder.glob("*.checkpoint")),
            f"a snapshot in {folder}",
            LONG_SECONDS,
        )


def await_prefix_gone(folder: Path) -> None:
    """Until retention has deleted what the snapshot covers."""
    wait_until(
        lambda: min(int(file.stem) for file in folder.glob("*.log")) > 0,
        f"the beginning of the log in {folder} is deleted",
        LONG_SECONDS,
    )


def stop(cluster: Cluster) -> None:
    """SIGTERM and its end."""
    cluster.signal(0, signal.SIGTERM)
    cluster.processes[0].wait(120)


def measure(log_bytes: int, only: list[str]) -> dict[str, Any]:
    """All parts; each in a directory of its own that is removed after it."""
    parts: dict[str, Work] = {
        "voters": voters,
        "observers": observers,
        "memory": memory,
        "start": lambda root: start(root, log_bytes),
        "join": lambda root: join(root, log_bytes),
    }
    found = {}
    for name, work in parts.items():
        if only and name not in only:
            continue
        root = REPOSITORY / "build" / "bench" / f"growth-{name}"
        shutil.rmtree(root, ignore_errors=True)
        found[name] = work(root)
        shutil.rmtree(root, ignore_errors=True)
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--log-mib", type=int, default=1024)
    parser.add_argument("--only", default="")
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "growth.json")
    arguments = parser.parse_args()
    only = [name for name in arguments.only.split(",") if name]
    results = measure(arguments.log_mib << 20, only)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(results, indent=1))
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
