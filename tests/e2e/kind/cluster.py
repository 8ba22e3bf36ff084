"""The cluster that the end-to-end tests and the demo run on: `cluster.py VERB`; see README.md.

Progress goes to stderr, results (paths, names, manifests) to stdout.
"""

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[2]))

from testbed import (
    control_plane,
    daemon,
    kafka_image,
    lifecycle,
    programs,
    project_images,
    volumes,
)
from testbed.commands import TestbedError
from testbed.disks import SIZE_MIB, Disk, Disks
from testbed.places import cache_directory, has_own_state, kubeconfig_path, state_directory
from testbed.progress import say


def tools(_: argparse.Namespace) -> None:
    """make or find docker, kind, helm and kubectl; prints a folder for PATH"""
    daemon.ensure()
    found = programs.tools()
    for program in (found.kind, found.helm, found.kubectl):
        say(f"using {program}")
    print(found.directory)


def helm(_: argparse.Namespace) -> None:
    """make or find helm alone; prints a folder for PATH"""
    print(programs.helm().parent)


def up(options: argparse.Namespace) -> None:
    """bring the cluster up, or reuse it; prints its kubeconfig"""
    first_port = options.first_host_port
    print(lifecycle.up(options.name, workers=options.workers, first_host_port=first_port))


def down(options: argparse.Namespace) -> None:
    """remove the cluster and its disks; --all: every cluster and our docker daemon as well"""
    every = options.all or options.cache
    # With a state of their own, other clusters and disks belong to other checkouts.
    named = set() if every and has_own_state() else {options.name}
    names = {*named, *(lifecycle.known_clusters() if every else [])}
    for name in sorted(names):
        lifecycle.down(name)
    if every:
        daemon.stop_ours(remove_data=True)
        shutil.rmtree(state_directory(), ignore_errors=True)
    if options.cache:
        shutil.rmtree(cache_directory(), ignore_errors=True)


def images(_: argparse.Namespace) -> None:
    """build the images of node and operator where they changed; prints their names"""
    daemon.ensure()
    print(*project_images.build_all(), sep="\n")


def pipeline_image(_: argparse.Namespace) -> None:
    """build the pipeline's image, with Spark and Java in it, where it changed; prints its name"""
    daemon.ensure()
    print(project_images.build_pipeline())


def load(options: argparse.Namespace) -> None:
    """put images onto the workers (default: those of node and operator)"""
    default = [project_images.NODE.name, project_images.OPERATOR.name]
    lifecycle.load(options.name, options.images or default)


def kafka(options: argparse.Namespace) -> None:
    """pull or build the image of a stock Kafka broker, put it onto the workers; prints its name"""
    daemon.ensure()
    # It needs the project; `down`, which `make clean` runs by the machine's own Python, has no more than that.
    from support import stock_kafka

    try:
        name = kafka_image.ensure(stock_kafka.jars)
    except stock_kafka.KafkaUnavailable as failure:
        raise TestbedError(str(failure)) from failure
    lifecycle.load(options.name, [name])
    print(name)


def kubeconfig(options: argparse.Namespace) -> None:
    """print the path of the cluster's kubeconfig"""
    path = kubeconfig_path(options.name)
    if not path.exists():
        raise TestbedError(f"there is no cluster {options.name}: bring it up first")
    print(path)


def run_control_plane(_: argparse.Namespace) -> None:
    """run only API server, etcd and controller manager, until interrupted; prints a kubeconfig"""
    with control_plane.ControlPlane() as running:
        say("ready; end with Ctrl-C")
        print(running.kubeconfig, flush=True)
        running.wait()


def disk(options: argparse.Namespace) -> None:
    """make, fail, heal, fill, empty or drop the disk in slot SLOT of worker WORKER"""
    disks = Disks(options.name)
    one = Disk(options.worker, options.slot)
    if options.action == "make":
        disks.make(one, size_mib=options.size_mib)
    else:
        getattr(disks, options.action)(one)
    print(f"{one} {disks.state(one)}")


def volumes_of(options: argparse.Namespace) -> None:
    """make SLOTS disks on each worker and apply their PersistentVolumes (class `disks`)"""
    spec = lifecycle.described(options.name)
    if spec is None:
        raise TestbedError(f"there is no cluster {options.name}: bring it up first")
    every = [Disk(w, s) for w in range(1, spec.workers + 1) for s in range(options.slots)]
    volumes.Volumes(options.name, kubeconfig_path(options.name)).provide(every)
    print(*(one.volume_name for one in every), sep="\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster.py", description=__doc__)
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    by_name = argparse.ArgumentParser(add_help=False)
    by_name.add_argument("--name", default="mq", help="of the cluster (default: mq)")

    def verb(name: str, action: object) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=action.__doc__, parents=[by_name])
        added.set_defaults(action_of_verb=action)
        return added

    verb("tools", tools)
    verb("helm", helm)
    add = verb("up", up).add_argument
    add("--workers", type=int, default=3)
    add("--first-host-port", type=int, default=lifecycle.NODE_PORTS.start)
    add = verb("down", down).add_argument
    add("--all", action="store_true", help="also other clusters and our docker daemon")
    add("--cache", action="store_true", help="all that, and everything in the cache")
    verb("images", images)
    verb("pipeline-image", pipeline_image)
    verb("load", load).add_argument("images", nargs="*", metavar="IMAGE")
    verb("kafka-image", kafka)
    verb("kubeconfig", kubeconfig)
    verb("control-plane", run_control_plane)
    add = verb("disk", disk).add_argument
    add("action", choices=("make", "fail", "heal", "fill", "empty", "drop"))
    add("worker", type=int)
    add("slot", type=int)
    add("--size-mib", type=int, default=SIZE_MIB)
    verb("volumes", volumes_of).add_argument("--slots", type=int, default=3)
    return parser


def main() -> int:
    options = _parser().parse_args()
    try:
        options.action_of_verb(options)
    except TestbedError as failure:
        print(f"cluster.py: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
