"""One operator and many quorums: calls when idle, memory, and repairs of many disks that fail at once.

    python bench/operator_scale.py [--quorums 100] [--seconds 60] [--alone 5] [--disks 20] [--no-report]

The API server is real (kube-apiserver, etcd and the controllers, started here). The operator is a process of its own with the rights of
the chart and a Lease. The nodes are simulated in this process. Calls are counted by a proxy; times are measured without it. Needs root,
like the test harness.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
for folder in (REPOSITORY / "tests", REPOSITORY / "tests" / "e2e" / "kind"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from page import Target, number, replace_section, table, targets_table  # noqa: E402
from testbed.control_plane import ControlPlane  # noqa: E402

from support.envtest.cluster import ApiServerCluster  # noqa: E402
from support.envtest.environment import SIMULATED_NODE_IMAGE, Env, install_definitions  # noqa: E402
from support.envtest.operator_figures import cpu_s  # noqa: E402
from support.envtest.scale import Fleet, p95  # noqa: E402
from support.envtest.simulated_nodes import SimulatedNodes  # noqa: E402
from support.kind_env.kube import Kube  # noqa: E402

HEADING = "The operator"
PAGE = REPOSITORY / "docs" / "evidence" / "benchmarks.md"
MEMBERS = 5
CONTROLLER_CALLS_PER_S = 500
"""Calls per second of each controller of Kubernetes. The default is 20, which alone would delay twenty concurrent StatefulSets."""
Figures = dict[str, Any]


def measure(options: argparse.Namespace) -> Figures:
    """All figures of one run."""
    folder = Path(tempfile.mkdtemp(prefix="bench-operator-"))
    simulated_nodes = SimulatedNodes()
    per_s = options.controller_calls or None
    try:
        with (
            ControlPlane(controller_calls_per_s=per_s) as running,
            ApiServerCluster(
                running.kubeconfig, folder, {SIMULATED_NODE_IMAGE: simulated_nodes}
            ) as cluster,
        ):
            api = Kube(running.kubeconfig)
            install_definitions(api)
            env = Env(api, cluster, folder)
            try:
                fleet = Fleet(env, simulated_nodes, options.quorums, MEMBERS)
                return _figures(fleet, running.process_ids, options)
            finally:
                if options.logs is not None:
                    shutil.copytree(folder, options.logs, dirs_exist_ok=True)
                for operator in env.operators:
                    operator.kill()
                api.close()  # the other processes end with the API server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(fleet: Fleet, servers: dict[str, int], options: argparse.Namespace) -> Figures:
    say(f"{len(fleet.names)} quorums of {MEMBERS}")
    begun = time.monotonic()
    fleet.create(timeout_s=1200)
    say(f"there after {time.monotonic() - begun:.0f} s; now at rest for {options.seconds:.0f} s")
    rest = fleet.rest(options.seconds)
    say(f"API {rest.api_per_s:.1f}/s, nodes {rest.nodes_per_s:.1f}/s, {rest.rss_mib:.0f} MiB")
    calls = fleet.calls_of_repair(fleet.names[-1], timeout_s=300)
    say(f"one repair: {calls.api.total()} calls {dict(calls.api)}")
    fleet.pass_proxy_by(timeout_s=600)
    say(f"without the proxy, {fleet.rss_mib():.0f} MiB")
    names = fleet.names
    lone = [fleet.newcomers([name], timeout_s=300)[0] for name in names[: options.alone]]
    many_lone = fleet.newcomers(names[: options.disks], timeout_s=600)
    say(f"Kubernetes alone: {_short(lone)} s; at once: {_short(many_lone)} s")
    time.sleep(10)  # waits for the clean-up of the previous round
    one = [fleet.repair([name], timeout_s=300)[0] for name in names[: options.alone]]
    say(f"alone: {_short(one)} s")
    time.sleep(10)
    before = _used(fleet, servers)
    many = fleet.repair(names[options.alone : options.alone + options.disks], timeout_s=600)
    used = _difference(before, _used(fleet, servers))
    say(f"{len(many)} at once: {_short(many)} s; {used}")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "quorums": len(names),
        "seconds": rest.seconds,
        "api": dict(rest.api),
        "nodes": dict(rest.nodes),
        "repair_api": round(calls.beside(rest)),
        "rss_mib": rest.rss_mib,
        "rss_busy_mib": fleet.rss_mib(),
        "lone_s": sorted(lone),
        "many_lone_s": many_lone,
        "alone_s": sorted(one),
        "many_s": many,
        "used": used,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def _used(fleet: Fleet, servers: dict[str, int]) -> dict[str, float]:
    """CPU time of each process so far, and the operator's metrics of its reconciles."""
    told = fleet.told()
    return {
        **{name: cpu_s(process_id) for name, process_id in servers.items()},
        "operator": fleet.cpu_s(),
        "harness": cpu_s(os.getpid()),
        "time": time.monotonic(),
        "reconciles": told.of("reconcile_duration_seconds_count"),
        "reconciling_s": told.of("reconcile_duration_seconds_sum"),
        "waiting_s": told.of("reconcile_wait_seconds_sum"),
        "calls": told.of("api_calls_total"),
        "calls_waiting_s": told.of("api_call_wait_seconds_total"),
    }


def _difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {name: round(after[name] - before[name], 2) for name in after}


def _short(seconds: list[float]) -> list[float]:
    return [round(each, 1) for each in seconds]


def section(found: Figures) -> str:
    """The section of docs/evidence/benchmarks.md."""
    seconds = found["seconds"]
    calls = sorted(found["api"].items(), key=lambda each: -each[1])
    rows = [[f"API: {what}", number(count / seconds, 2)] for what, count in calls]
    rows += [
        [f"nodes: {what}", number(c / seconds, 2)] for what, c in sorted(found["nodes"].items())
    ]
    api, nodes = (sum(found[key].values()) / seconds for key in ("api", "nodes"))
    lists = sum(count for what, count in found["api"].items() if what.startswith("LIST"))
    alone, many, used = found["alone_s"], found["many_s"], found["used"]
    targets: list[Target] = [
        ("calls of the API server at rest: ≤ 20/s", api, 20.0, True),
        ("lists at rest: none", float(lists), 0.0, True),
        ("calls of nodes at rest: ≤ 25/s", nodes, 25.0, True),
        ("memory at rest: ≤ 256 MiB", found["rss_mib"], 256.0, True),
        ("memory after the repairs: ≤ 256 MiB", found["rss_busy_mib"], 256.0, True),
        (f"{len(many)} disks at once, p95: ≤ 2 × one alone", p95(many) / p95(alone), 2.0, True),
    ]
    return f"""## {HEADING}

`make bench-operator` makes this section ({found["date"]}): one operator with {
        found["quorums"]
    } quorums of {MEMBERS}, a real API server,
and stand-ins for the nodes, all on one machine. The load average was {found["load"]:.0f} on {
        found["cores"]
    } cores: calls do not depend on it,
times do. The controllers of Kubernetes may make {
        CONTROLLER_CALLS_PER_S
    } calls a second each, not 20 as usual: with 20 they are what is waited for.

{table(["at rest", "calls/s"], rows)}

A repair lasts from the death of a disk to five live voters again, debounce of the default spec included. It takes {
        found["repair_api"]
    } calls of
the API server. What Kubernetes takes without the operator is measured by StatefulSets that
nobody owns: from their creation until their pods run, on new volumes.

{_times(found)}

Where the CPU went while all repairs ran ({number(used["time"])} s on {found["cores"]} cores):

{_cpu(used, len(many))}

Within the operator {number(used["reconciles"])} reconciles waited {
        number(1000 * used["waiting_s"] / max(used["reconciles"], 1))
    } ms each before they began, and {number(used["calls"])} calls
of the API server {
        number(1000 * used["calls_waiting_s"] / max(used["calls"], 1))
    } ms each before they were made. That holds what a process waits for a core, and what looks at quorums at
rest wait because those with a repair go first. The rest is the machine's and the operator's CPU, all of which is on one core. In virtual
time, where CPU counts nothing and each call takes 20 ms, twenty repairs are within twice the time of one alone
(`tests/unit/operator_reconcile/test_concurrent_repairs.py`).

{targets_table(targets)}
"""


def _times(found: Figures) -> str:
    times = [
        ("Kubernetes alone: one new member's pod", found["lone_s"]),
        ("Kubernetes alone: at once", found["many_lone_s"]),
        ("one repair alone", found["alone_s"]),
        ("repairs at once", found["many_s"]),
    ]
    rows = [
        [what, str(len(s)), number(s[len(s) // 2]), number(p95(s)), number(s[-1])]
        for what, s in times
    ]
    return table(["", "number", "median, s", "p95, s", "longest, s"], rows)


def _cpu(used: dict[str, float], repairs: int) -> str:
    names = ("operator", "kube-apiserver", "kube-controller-manager", "etcd", "harness")
    rows = [[name, number(used[name]), number(used[name] / repairs, 2)] for name in names]
    return table(["process", "CPU, s", "a repair, s"], rows)


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quorums", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="at rest")
    parser.add_argument("--alone", type=int, default=5, help="disks that die one after the other")
    parser.add_argument("--disks", type=int, default=20, help="disks that die at once")
    parser.add_argument(
        "--controller-calls",
        type=int,
        default=CONTROLLER_CALLS_PER_S,
        help="limit of calls a second of each controller of Kubernetes; 0: its own, which is 20",
    )
    parser.add_argument("--logs", type=Path, help="folder to keep logs in")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench-operator.json")
    arguments = parser.parse_args()
    # Child processes have to end, too, when a time limit ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = measure(arguments)
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1))
    text = section(found)
    if arguments.report:
        PAGE.write_text(replace_section(PAGE.read_text(), HEADING, text))
    print(text)


if __name__ == "__main__":
    main()
