"""`make bench`: our node, etcd, ZooKeeper and Kafka's controllers, side by side in one run on this machine.

    python -m bench [--rounds 3] [--seconds 5] [--only metadataquorum,etcd] [--no-tls] [--no-growth] [--no-controller] [--no-pipeline]

One system runs at a time, because all share the machine's cores. The systems take turns in each round, so that a slow
phase of the machine affects all of them. A system that fails in a round is reported, and only that round is lost. Then mutual_tls.py measures what TLS costs, growth.py
what grows, brokers.py the controller of brokers, and pipeline.py the pipeline over a long log. Results go to a JSON file and, through
bench/report.py, into docs/evidence/benchmarks.md with its picture.
"""

import argparse
import itertools
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

import brokers  # noqa: E402
import growth  # noqa: E402
import interpreter  # noqa: E402
import mutual_tls  # noqa: E402
import report  # noqa: E402
from contender import Cluster, python, resident_mb, run_json  # noqa: E402
from etcd_members import EtcdCluster  # noqa: E402
from kafka_controllers import KafkaCluster  # noqa: E402
from our_nodes import OurCluster  # noqa: E402
from progress import Progress  # noqa: E402
from zookeeper_members import ZooKeeperCluster  # noqa: E402

import pipeline  # noqa: E402

SYSTEMS: dict[str, Callable[[Path], Cluster]] = {
    "metadataquorum": OurCluster,
    "etcd": EtcdCluster,
    "zookeeper": ZooKeeperCluster,
    "kafka": KafkaCluster,
    "kafka-linger-0": lambda directory: KafkaCluster(directory, 0),
}
WITHOUT_FAULTS = frozenset({"kafka-linger-0"})
"""Linger changes latency only; killing leaders twice would tell nothing new."""
CLIENTS = (1, 10, 100, 1000)
WARMUP_SECONDS = 1.0
SETTLE_SECONDS = 3.0
"""Seconds to wait after the start of a cluster, so that one-time work is not measured."""
PROBE_LEAD_SECONDS = 0.7
CONSEQUENCE_SECONDS = 0.5


@dataclass
class Round:
    """Results of one system in one round."""

    system: str
    number: int
    loads: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[str, list[float]] = field(default_factory=dict)
    """Signal name to milliseconds: until the next commit (KILL, STOP), longest gap (TERM)."""
    resident_mb: float = 0.0
    create_seconds: float = 0.0
    failed: str = ""
    """The failure; earlier measurements are valid."""


def main() -> None:
    """Command line."""
    arguments = parsed()
    started = time.monotonic()
    results: dict[str, Any] = {"machine": machine(), "calibration": calibrate(arguments.seconds)}
    compare(results, arguments)
    later: dict[str, tuple[bool, Callable[[], Any]]] = {
        "tls": (arguments.tls, lambda: mutual_tls.measure(arguments.rounds, arguments.seconds)),
        "growth": (arguments.growth, lambda: growth.measure(arguments.log_mib)),
        "controller": (arguments.controller, lambda: brokers.measure(arguments.rounds)),
        "pipeline": (arguments.pipeline, pipeline.measure),
    }
    for part, (wanted, measure) in later.items():
        if not wanted:
            continue
        say(part, 0, f"begins, {(time.monotonic() - started) / 60:.0f} minutes after the start")
        try:
            results[part] = measure()
        except Exception as error:  # the page keeps the previous results of this part
            say(part, 0, f"failed: {error!r}")
        arguments.output.write_text(json.dumps(results, indent=1))
    if arguments.report:
        report.write(arguments.output)


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--kills", type=int, default=4, help="kill -9 of the leader, a round")
    parser.add_argument("--freezes", type=int, default=2, help="SIGSTOP of the leader, a round")
    parser.add_argument("--terms", type=int, default=4, help="SIGTERM of the leader, a round")
    parser.add_argument("--only", default=",".join(SYSTEMS))
    parser.add_argument(
        "--tls",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the cost of mutual TLS; alone: make bench-tls",
    )
    parser.add_argument(
        "--growth",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also what grows: voters, observers, records, the log",
    )
    parser.add_argument(
        "--controller",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the controller of brokers: topics, failures, a million partitions",
    )
    parser.add_argument(
        "--pipeline",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also the pipeline: archive, state and plan over a long log",
    )
    parser.add_argument("--log-mib", type=int, default=growth.LOG_MIB, help="the large log")
    parser.add_argument(
        "--report",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="write docs/evidence/benchmarks.md and its picture",
    )
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench.json")
    return parser.parse_args()


def compare(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Run all rounds of all systems; the file is updated after each."""
    names = arguments.only.split(",")
    before = busy_seconds() - own_seconds()
    started = time.monotonic()
    rounds: list[Round] = []
    progress = Progress(
        {name: expected_seconds(name, arguments) for name in names}, arguments.rounds
    )
    for number in range(arguments.rounds):
        # Another order in each round, so that no system always follows the same one.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            with progress.part(name, number):
                rounds.append(one_round(name, number, arguments))
            results["rounds"] = [asdict(r) for r in rounds]
            others = busy_seconds() - own_seconds() - before
            capacity = (time.monotonic() - started) * (os.cpu_count() or 1)
            results["machine"]["others_cpu_share"] = max(0.0, others / capacity)
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            arguments.output.write_text(json.dumps(results, indent=1))


def one_round(name: str, number: int, arguments: argparse.Namespace) -> Round:
    """Load and faults on a new cluster of one system."""
    directory = REPOSITORY / "build" / "bench" / f"{name}-{number}"
    shutil.rmtree(directory, ignore_errors=True)
    cluster, result = SYSTEMS[name](directory), Round(name, number)
    try:
        start = time.monotonic()
        cluster.create()
        result.create_seconds = time.monotonic() - start
        time.sleep(SETTLE_SECONDS)
        for clients in CLIENTS:
            cluster.await_whole()
            load = cluster.load(clients, arguments.seconds, WARMUP_SECONDS)
            result.loads.append(load)
            say(name, number, f"{clients} clients: {load['per_second']:.0f}/s p50 {load['p50_ms']}")
        sizes = [resident_mb(process.pid) for process in cluster.processes.values()]
        result.resident_mb = max(sizes)
        if name not in WITHOUT_FAULTS:
            repeats = {"SIGKILL": arguments.kills, "SIGSTOP": arguments.freezes}
            for fault, count in {**repeats, "SIGTERM": arguments.terms}.items():
                result.faults[fault] = [one_fault(cluster, fault) for _ in range(count)]
                shown = [round(ms) for ms in result.faults[fault]]
                say(name, number, f"{fault} of the leader: {shown} ms")
    except Exception as error:  # the other systems and rounds are still useful
        result.failed = repr(error)[:300]
        say(name, number, f"failed: {error!r}")
    finally:
        cluster.stop()
    shutil.rmtree(directory, ignore_errors=True)
    return result


def one_fault(cluster: Cluster, fault: str) -> float:
    """Fault of the leader during probing writes, in milliseconds; see `Round.faults`."""
    cluster.await_whole()
    leader = cluster.leader()
    probe = cluster.start_probe(PROBE_LEAD_SECONDS + cluster.window_seconds(fault))
    time.sleep(PROBE_LEAD_SECONDS)
    hit = cluster.signal(leader, signal.Signals[fault])
    commits = probe.commits()
    if fault == "SIGSTOP":
        cluster.signal(leader, signal.SIGCONT)
    else:
        cluster.restart(leader)
    return gap_ms(commits, hit, fault)


def expected_seconds(name: str, arguments: argparse.Namespace) -> float:
    """Approximate duration of a round of a system, for the estimate of the remaining time."""
    seconds: float = 10 + len(CLIENTS) * (arguments.seconds + 4)
    if name in WITHOUT_FAULTS:
        return seconds
    cluster = SYSTEMS[name](REPOSITORY / "build" / "bench" / "none")
    counts = {"SIGKILL": arguments.kills, "SIGSTOP": arguments.freezes, "SIGTERM": arguments.terms}
    for fault, count in counts.items():
        seconds += count * (cluster.window_seconds(fault) + 3)
    return seconds


def gap_ms(commits: list[float], hit: float, fault: str) -> float:
    """Milliseconds without a commit.

    After a kill or freeze: from the signal to the first commit of another leader, which ends the longest pause
    (responses in flight may arrive directly after the signal). After SIGTERM: the longest pause itself. Only pauses that
    began soon after the signal count; later ones have other causes.
    """
    before = [moment for moment in commits if moment <= hit]
    after = [moment for moment in commits if moment > hit]
    if not before or not after:
        raise RuntimeError(f"{fault}: {len(before)} commits before and {len(after)} after")
    pauses = [
        (end - start, end)
        for start, end in itertools.pairwise([before[-1], *after])
        if start < hit + CONSEQUENCE_SECONDS
    ]
    longest, resumed = max(pauses)
    return 1e3 * (longest if fault == "SIGTERM" else resumed - hit)


def calibrate(seconds: float) -> list[dict[str, Any]]:
    """The Kafka-protocol generator against a server that does nothing: its maximum rate and its cost."""
    server = subprocess.Popen(python("null_server.py"), stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = f"127.0.0.1:{server.stdout.readline().strip()}"
        results = []
        for clients in CLIENTS:
            options = ["--address", address, "--clients", str(clients), "--seconds", str(seconds)]
            results.append({**run_json(python("kafka_load.py", *options), 60), "clients": clients})
        return results
    finally:
        server.terminate()
        server.wait(10)


def machine() -> dict[str, Any]:
    """Description of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "interpreter": interpreter.sentence(interpreter.running()),
        "fdatasync_ms": fdatasync_ms(),
        "load_at_start": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def busy_seconds() -> float:
    """CPU time of all processes of the machine so far."""
    user, nice, system, _, _, interrupt, soft_interrupt = map(
        int, Path("/proc/stat").read_text().split()[1:8]
    )
    ticks = user + nice + system + interrupt + soft_interrupt
    return ticks / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of its ended children."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def fdatasync_ms(count: int = 500) -> dict[str, float]:
    """Median and 99th percentile of a synced small append on this disk."""
    path = REPOSITORY / "build" / "fdatasync"
    path.parent.mkdir(exist_ok=True)
    times = []
    with path.open("ab", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * 400)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1e3)
    path.unlink()
    times.sort()
    return {"p50": round(times[count // 2], 3), "p99": round(times[int(count * 0.99)], 3)}


def say(name: str, number: int, text: str) -> None:
    """Print progress."""
    print(f"{time.strftime('%H:%M:%S')} round {number + 1} {name}: {text}", flush=True)


if __name__ == "__main__":
    main()
