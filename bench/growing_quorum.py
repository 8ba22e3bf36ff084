"""Quorums of one to seven voters, a hundred observers, and the parts of a commit's latency.

Owns short loads on our own nodes, and the analysis of the leader's metrics and of a sampling profile. Results are plain dictionaries, for
growth_report.py.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contender import python, run_json
from our_nodes import OurCluster

from support.local_quorum import LocalNode, LocalQuorum, wait_until

VOTERS = (1, 3, 5, 7)
OBSERVERS = (0, 10, 100)
CLIENTS = (1, 100)
WAIT_SECONDS = 60.0
PARTS = {
    "commit": "commit_latency_seconds",
    "fsync": "local_fsync_latency_seconds",
    "flush": "flush_latency_seconds",
    "apply": "apply_latency_seconds",
    "replication": "replication_latency_seconds",
}
"""Histograms of the leader that a commit's latency consists of."""
_SUM_OR_COUNT = re.compile(
    r'^metadata_quorum_(\w+)_(sum|count)(?:\{partition="0"\})? (\S+)$', re.MULTILINE
)


def voters(root: Path, seconds: float) -> Iterable[tuple[str, dict[str, Any]]]:
    """One client's latency and a hundred clients' throughput, by number of voters."""
    for count in VOTERS:
        with LocalQuorum(
            root / f"voters-{count}", count, properties=dict(OurCluster.properties)
        ) as quorum:
            quorum.form(WAIT_SECONDS)
            yield str(count), loads(quorum, seconds)


def observers(root: Path, seconds: float) -> Iterable[tuple[str, dict[str, Any]]]:
    """The same with three voters, by number of observers."""
    for count in OBSERVERS:
        with LocalQuorum(
            root / f"observers-{count}", properties=dict(OurCluster.properties)
        ) as quorum:
            quorum.form(WAIT_SECONDS)
            followers = start_observers(quorum, count) if count else None
            try:
                yield str(count), loads(quorum, seconds)
            finally:
                if followers is not None:
                    followers.communicate(timeout=30)


def commit_path(root: Path, seconds: float) -> Iterable[tuple[str, dict[str, Any]]]:
    """The leader's own latencies and a profile of it and of a follower, by number of clients."""
    for clients in CLIENTS:
        with LocalQuorum(
            root / f"path-{clients}", properties=dict(OurCluster.properties)
        ) as quorum:
            for node in quorum.nodes.values():
                node.module = "sampled_node"
            quorum.form(WAIT_SECONDS)
            load(quorum, clients, 1.0)
            leader, follower = quorum.leader, quorum.followers[0]
            before = histograms(quorum, leader.id)
            for node in (leader, follower):
                node.signal(signal.SIGUSR1)
            measured = load(quorum, clients, seconds)
            profiles = [profile_of(node) for node in (leader, follower)]
            after = histograms(quorum, leader.id)
        found = {name: mean_ms(before, after, metric) for name, metric in PARTS.items()}
        found |= {"p50_ms": measured["p50_ms"], "per_second": measured["per_second"]}
        yield str(clients), found | {"leader": profiles[0], "follower": profiles[1]}


def loads(quorum: LocalQuorum, seconds: float) -> dict[str, Any]:
    """Loads with one and with a hundred clients."""
    one, many = (load(quorum, clients, seconds) for clients in CLIENTS)
    return {"p50_ms": one["p50_ms"], "per_second": many["per_second"]}


def load(quorum: LocalQuorum, clients: int, seconds: float) -> dict[str, Any]:
    """A closed loop of writes to the leader."""
    address = f"127.0.0.1:{quorum.leader.port}"
    options = ["--address", address, "--clients", str(clients), "--seconds", str(seconds)]
    return run_json(python("kafka_load.py", *options), seconds + 60)


def start_observers(quorum: LocalQuorum, count: int) -> subprocess.Popen[str]:
    """Start a process with `count` observers; returns when all of them have received a response."""
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


def histograms(quorum: LocalQuorum, node_id: int) -> dict[tuple[str, str], float]:
    """Current values by (histogram, `sum` or `count`)."""
    answer = quorum.request("GET", "/metrics", node_id)
    assert answer is not None
    return {(name, kind): float(value) for name, kind, value in _SUM_OR_COUNT.findall(answer.text)}


def mean_ms(
    before: dict[tuple[str, str], float], after: dict[tuple[str, str], float], metric: str
) -> float:
    """Mean of the observations of a histogram between two readings."""
    seconds, count = (
        after.get((metric, kind), 0.0) - before.get((metric, kind), 0.0)
        for kind in ("sum", "count")
    )
    return 1e3 * seconds / max(1.0, count)


def profile_of(node: LocalNode) -> dict[str, Any]:
    """Profile of a node's main thread since SIGUSR1; see sampled_node.py."""
    path = node.data_dir.parent / "samples.json"
    node.signal(signal.SIGUSR2)
    wait_until(path.exists, f"{path} is written", 10.0)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} growth: {text}", flush=True)
