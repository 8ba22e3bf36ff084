"""The controller of brokers: topic creation, failures of brokers and controllers, a million partitions.

Part of `make bench`. `make bench-controller` runs it alone and writes only its section of docs/evidence/benchmarks.md:

    python bench/brokers.py [--rounds 3] [--sizes 1000,10000,100000] [--million 1000000] [--only creation,failures,million]

Ours and Kafka's controllers run in turns. The light brokers are those of `light_brokers.py`. A part that fails or exceeds the
time limit is reported as not measured; the others continue. Parts that run only once come first.
"""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

import uvloop

REPOSITORY = Path(__file__).resolve().parents[1]
if str(REPOSITORY / "tests") not in sys.path:
    sys.path.insert(0, str(REPOSITORY / "tests"))

import broker_report  # noqa: E402
import interpreter  # noqa: E402
import million_partitions  # noqa: E402
from broker_workloads import Controllers, creation, failures  # noqa: E402
from growing_quorum import say  # noqa: E402
from kafka_controllers import KafkaCluster  # noqa: E402
from our_nodes import OurCluster  # noqa: E402
from parts import Work, run_parts  # noqa: E402

SYSTEMS: dict[str, Callable[[Path], Controllers]] = {"ours": OurCluster, "kafka": KafkaCluster}
SIZES = (1_000, 10_000, 100_000)
MILLION = 1_000_000
ROUNDS = 3
KILLS = 3
SECONDS = 5.0
BUDGET_SECONDS = 25 * 60.0
Found = Iterable[tuple[str, dict[str, Any]]]


def measure(
    rounds: int = ROUNDS,
    sizes: tuple[int, ...] = SIZES,
    million: int = MILLION,
    seconds: float = SECONDS,
    only: tuple[str, ...] = (),
    save: Callable[[dict[str, Any]], None] = lambda found: None,
) -> dict[str, Any]:
    """Results of all parts by part and figure, one for each round; `save` is called after each addition."""
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "failed": {}}
    deadline = time.monotonic() + BUDGET_SECONDS
    parts: dict[str, Work] = {
        "creation": lambda root: creations(root, rounds, seconds),
        "million": lambda root: million_partitions.measure(root, million),
        "failures": lambda root: all_failures(root, rounds, sizes, deadline),
    }

    def took(name: str, what: str, figures: dict[str, Any]) -> None:
        found[name].setdefault(what, []).append(figures)
        say(f"{name}, {what}: {json.dumps(figures)}")
        save(found)

    run_parts("controller", parts, found, only, deadline, took)
    return found


def creations(root: Path, rounds: int, seconds: float) -> Found:
    """Topic creation, the systems in turns."""

    async def env(cluster: Controllers) -> dict[str, Any]:
        return await creation(cluster, seconds)

    for number in range(rounds):
        for system in SYSTEMS:
            yield system, on_fresh(system, root / f"{system}-{number}", env)


def all_failures(root: Path, rounds: int, sizes: tuple[int, ...], deadline: float) -> Found:
    """Broker and controller failures by number of partitions, round by round.

    Kafka with the largest number is measured once, because it takes longer than everything else. A failure is reported; the others continue.
    """
    failed: list[str] = []
    for number in range(rounds):
        for partitions in sizes:
            if number and time.monotonic() > deadline:
                continue

            async def env(cluster: Controllers, partitions: int = partitions) -> dict[str, Any]:
                return await failures(cluster, partitions, KILLS)

            for system in SYSTEMS:
                what = f"{system}, {partitions}"
                if number and system == "kafka" and partitions >= SIZES[-1]:
                    continue
                if time.monotonic() > deadline:
                    failed.append(f"{what}: no time was left")
                    continue
                try:
                    yield what, on_fresh(system, root / f"{system}-{partitions}-{number}", env)
                except Exception as error:
                    failed.append(f"{what}: {error!r}")
                    say(f"failures, {what} failed: {error!r}")
    if failed:
        raise RuntimeError("; ".join(failed))


def on_fresh(
    system: str,
    directory: Path,
    env: Callable[[Controllers], Coroutine[Any, Any, dict[str, Any]]],
) -> dict[str, Any]:
    """An environment on three new controllers."""
    cluster = SYSTEMS[system](directory)
    try:
        cluster.create()
        return uvloop.run(env(cluster))
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The earlier results, with the figures of this run replaced."""
    failed = {name: why for name, why in before.get("failed", {}).items() if name not in found}
    parts = {
        name: {**before.get(name, {}), **what}
        for name, what in found.items()
        if isinstance(what, dict)
    }
    return {**before, **found, **parts, "failed": {**failed, **found["failed"]}}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="partitions that fail")
    parser.add_argument("--million", type=int, default=MILLION, help="partitions of that part")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of topic creation")
    parser.add_argument("--only", default="", help="creation, failures, million")
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "build" / "bench.json")
    arguments = parser.parse_args()
    # Child processes have to end, too, when a time limit ends this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    only = tuple(name for name in arguments.only.split(",") if name)
    sizes = tuple(int(size) for size in arguments.sizes.split(","))
    path: Path = arguments.output
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.loads(path.read_text()) if path.exists() else {}
    before = document.get("controller", {})

    def save(found: dict[str, Any]) -> None:
        document["controller"] = merged(before, found)
        path.write_text(json.dumps(document, indent=1))

    save(measure(arguments.rounds, sizes, arguments.million, arguments.seconds, only, save))
    if arguments.report:
        broker_report.write_alone(document["controller"])


if __name__ == "__main__":
    interpreter.ensure()
    main()
