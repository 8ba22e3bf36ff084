"""`make bench-tls`: what mutual TLS costs, for our nodes, etcd and Kafka's controllers.

    python bench/mutual_tls.py [--rounds 5] [--seconds 5] [--clients 1,100] [--only metadataquorum,etcd,kafka,holds]

Of each system two clusters run at the same time, one in clear text and one with mutual TLS between members and with clients. They receive load
in turns, so that other work on the machine affects both. The systems themselves run one after the other, in each round in another order.
Ratios are computed within a round. Part of `make bench`; writes the section "With mutual TLS" of docs/evidence/benchmarks.md.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "bench"))
sys.path.insert(0, str(REPOSITORY / "tests"))

import interpreter  # noqa: E402

if __name__ == "__main__":
    interpreter.ensure()

import loop_holds  # noqa: E402
import tls_report  # noqa: E402
from contender import Cluster  # noqa: E402
from etcd_members import EtcdCluster  # noqa: E402
from kafka_controllers import KafkaCluster  # noqa: E402
from our_nodes import OurCluster, OurTlsCluster  # noqa: E402
from page import replace_section  # noqa: E402
from progress import Progress  # noqa: E402

PAGE = REPOSITORY / "docs" / "evidence" / "benchmarks.md"
CLIENTS = (1, 10, 100, 1000)
WARMUP_SECONDS = 1.0
SETTLE_SECONDS = 4.0
"""Seconds to wait after the start of a cluster, so that one-time work is not measured."""
PLAIN, TLS = "plain", "tls"
HOLDS = "holds"
"""Name of the part that measures how long an answer of 8 MiB occupies the loop."""
Pair = dict[str, Callable[[Path], Cluster]]
SYSTEMS: dict[str, Pair] = {
    "metadataquorum": {PLAIN: OurCluster, TLS: OurTlsCluster},
    "etcd": {PLAIN: EtcdCluster, TLS: lambda root: EtcdCluster(root, tls=True)},
    "kafka": {PLAIN: KafkaCluster, TLS: lambda root: KafkaCluster(root, tls=True)},
}


def measure(
    rounds: int,
    seconds: float = 5.0,
    counts: tuple[int, ...] = CLIENTS,
    only: tuple[str, ...] = (*SYSTEMS, HOLDS),
) -> dict[str, Any]:
    """All rounds, and the loop's longest turns; a system that fails in a round is reported in its entry."""
    names = [name for name in SYSTEMS if name in only]
    expected = dict.fromkeys(names, 20 + 2 * len(counts) * (seconds + WARMUP_SECONDS + 2))
    progress = Progress(expected, rounds)
    found: list[dict[str, Any]] = []
    say(f"with and without TLS: {', '.join(names)}")
    for number in range(rounds):
        turn = number % max(1, len(names))
        for name in names[turn:] + names[:turn]:
            with progress.part(name, number):
                found.append(one_round(name, number, seconds, counts))
    document: dict[str, Any] = {
        "rounds": found,
        "seconds": seconds,
        "date": time.strftime("%Y-%m-%d"),
        "interpreter": interpreter.sentence(interpreter.running()),
    }
    if HOLDS in only:
        document[HOLDS] = held()
    return document


def one_round(name: str, number: int, seconds: float, counts: tuple[int, ...]) -> dict[str, Any]:
    """Loads of one system on two new clusters, by variant."""
    root = REPOSITORY / "build" / "bench" / f"tls-{name}-{number}"
    shutil.rmtree(root, ignore_errors=True)
    entry: dict[str, Any] = {"system": name, "number": number, PLAIN: [], TLS: [], "failed": ""}
    # The second one finds warm caches: each variant is first equally often.
    order = [PLAIN, TLS] if number % 2 == 0 else [TLS, PLAIN]
    clusters = {variant: SYSTEMS[name][variant](root / variant) for variant in order}
    try:
        for cluster in clusters.values():
            cluster.create()
        time.sleep(SETTLE_SECONDS)
        for clients in counts:
            for variant in order:
                clusters[variant].await_whole()
                load = clusters[variant].load(clients, seconds, WARMUP_SECONDS)
                entry[variant].append(load)
                say(
                    f"{name}, {variant}, {clients} clients: {load['per_second']:.0f}/s p50 {load['p50_ms']}"
                )
    except Exception as error:  # the other systems and rounds are still useful
        entry["failed"] = repr(error)[:300]
        say(f"{name} failed: {error!r}")
    finally:
        for cluster in clusters.values():
            cluster.stop()
    shutil.rmtree(root, ignore_errors=True)
    return entry


def held() -> dict[str, loop_holds.Figures]:
    """The loop's longest turns; empty if they could not be measured."""
    root = REPOSITORY / "build" / "bench" / "loop-holds"
    shutil.rmtree(root, ignore_errors=True)
    try:
        return loop_holds.measure(root)
    except Exception as error:
        say(f"answers of 8 MiB failed: {error!r}")
        return {}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def say(text: str) -> None:
    """Progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--clients", default=",".join(map(str, CLIENTS)))
    parser.add_argument("--only", default=",".join((*SYSTEMS, HOLDS)))
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench-tls.json")
    arguments = parser.parse_args()
    only = tuple(arguments.only.split(","))
    if unknown := set(only) - {*SYSTEMS, HOLDS}:
        parser.error(
            f"--only: {', '.join(sorted(unknown))} is not one of {', '.join(SYSTEMS)}, {HOLDS}"
        )
    counts = tuple(map(int, arguments.clients.split(",")))
    found = measure(arguments.rounds, arguments.seconds, counts, only)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(found, indent=1))
    text = tls_report.section(found)
    if arguments.report:
        known = PAGE.read_text() if PAGE.exists() else ""
        PAGE.write_text(replace_section(known, tls_report.HEADING, text))
    print(text)


if __name__ == "__main__":
    main()
