"""One operator and many quorums: calls at rest, memory, and repairs of many disks that die at once.

    python bench/operator_scale.py [--quorums 100] [--seconds 60] [--alone 5] [--disks 20] [--no-report]

The API server is real (kube-apiserver, etcd and the controllers, started here), the operator is a process of its own
with the rights of the chart and a Lease; the nodes are stand-ins in this process. Needs root, as the test harness does.
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

from support.harness.cluster import HarnessCluster  # noqa: E402
from support.harness.crowd import Crowd  # noqa: E402
from support.harness.scale import Fleet, p95  # noqa: E402
from support.harness.scene import CROWD_IMAGE, Scene, install_definitions  # noqa: E402
from support.trial.kube import Kube  # noqa: E402

HEADING = "The operator"
PAGE = REPOSITORY / "docs" / "benchmarks.md"
MEMBERS = 5
Figures = dict[str, Any]


def measure(quorums: int, seconds: float, alone: int, disks: int) -> Figures:
    """All figures of one run."""
    folder = Path(tempfile.mkdtemp(prefix="bench-operator-"))
    crowd = Crowd()
    try:
        with (
            ControlPlane() as running,
            HarnessCluster(running.kubeconfig, folder, {CROWD_IMAGE: crowd}) as cluster,
        ):
            api = Kube(running.kubeconfig)
            install_definitions(api)
            scene = Scene(api, cluster, folder)
            try:
                return _figures(Fleet(scene, crowd, quorums, MEMBERS), seconds, alone, disks)
            finally:
                scene.remove()
                api.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _figures(fleet: Fleet, seconds: float, alone: int, disks: int) -> Figures:
    say(f"{len(fleet.names)} quorums of {MEMBERS}")
    begun = time.monotonic()
    fleet.create(timeout_s=1200)
    say(f"there after {time.monotonic() - begun:.0f} s; now at rest for {seconds:.0f} s")
    rest = fleet.rest(seconds)
    say(f"API {rest.api_per_s:.1f}/s {dict(rest.api)}, nodes {rest.nodes_per_s:.1f}/s")
    one = [fleet.repair([name], timeout_s=300)[0] for name in fleet.names[:alone]]
    say(f"alone: {[round(each, 1) for each in one]} s")
    many = fleet.repair(fleet.names[alone : alone + disks], timeout_s=600)
    say(f"{len(many)} at once: {[round(each, 1) for each in many]} s")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "quorums": len(fleet.names),
        "seconds": rest.seconds,
        "api": dict(rest.api),
        "nodes": dict(rest.nodes),
        "rss_mib": rest.rss_mib,
        "rss_busy_mib": fleet.rss_mib(),
        "alone_s": sorted(one),
        "many_s": many,
        "load": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


def section(found: Figures) -> str:
    """The section of docs/benchmarks.md."""
    seconds = found["seconds"]
    calls = sorted(found["api"].items(), key=lambda each: -each[1])
    rows = [[f"API: {what}", number(count / seconds, 2)] for what, count in calls]
    rows += [
        [f"nodes: {what}", number(c / seconds, 2)] for what, c in sorted(found["nodes"].items())
    ]
    api, nodes = (sum(found[key].values()) / seconds for key in ("api", "nodes"))
    lists = sum(count for what, count in found["api"].items() if what.startswith("LIST"))
    alone, many = found["alone_s"], found["many_s"]
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
and stand-ins for the nodes. The load average was {found["load"]:.0f} on {
        found["cores"]
    } cores: calls do not depend on it, memory and times do.

{table(["at rest", "calls/s"], rows)}

From the death of a disk to five live voters again, debounce of the default spec included:

{
        table(
            ["", "repairs", "median, s", "p95, s", "longest, s"],
            [
                [
                    "one alone",
                    str(len(alone)),
                    number(alone[len(alone) // 2]),
                    number(p95(alone)),
                    number(alone[-1]),
                ],
                [
                    "at once",
                    str(len(many)),
                    number(many[len(many) // 2]),
                    number(p95(many)),
                    number(many[-1]),
                ],
            ],
        )
    }

{targets_table(targets)}
"""


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
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench-operator.json")
    arguments = parser.parse_args()
    # What was started has to end, too, when a time limit ends this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = measure(arguments.quorums, arguments.seconds, arguments.alone, arguments.disks)
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1))
    text = section(found)
    if arguments.report:
        PAGE.write_text(replace_section(PAGE.read_text(), HEADING, text))
    print(text)


if __name__ == "__main__":
    main()
