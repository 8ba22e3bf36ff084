"""Creates, reuses and removes a cluster: control plane, workers with disks, ports to the host."""

import json
import os
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import daemon, debian, node_image, programs
from testbed.commands import CommandFailed, TestbedError, as_root, run
from testbed.disks import Disks
from testbed.kubectl import Kubectl
from testbed.nodes import node_names, worker_name
from testbed.places import cluster_directory, exclusive, kubeconfig_path, state_directory
from testbed.progress import say, step

NODE_PORTS = range(30000, 30021)
"""NodePorts that are reached at 127.0.0.1, from outside the cluster, under the same number."""

_CREATE_TIMEOUT_S = 600.0
_TRIES = 4
_BOOTED_TOO_SLOWLY = "could not find a log line"


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """What a running cluster was made from; kept beside its kubeconfig."""

    name: str
    workers: int
    first_host_port: int
    node_image: str


def up(name: str, *, workers: int, first_host_port: int = NODE_PORTS.start) -> Path:
    """Returns the kubeconfig of a cluster whose nodes are all ready. A running one is reused."""
    daemon.ensure()
    with exclusive(f"cluster-{name}"):
        running = described(name)
        if running is not None and answers(name):
            if running.workers != workers:
                raise TestbedError(
                    f"cluster {name} runs with {running.workers} workers, not {workers}: "
                    f"take it down first"
                )
            Disks(name).prepare(workers)
            say(f"cluster {name} is up already")
            return kubeconfig_path(name)
        if node_names(name):
            say(f"cluster {name} does not answer: it is made anew")
            _remove(name)
        image, tools = _prepared()
        _check_ports(first_host_port)
        spec = ClusterSpec(name, workers, first_host_port, image)
        _create(spec, tools)
    return kubeconfig_path(name)


def down(name: str) -> None:
    """Removes the cluster, its disks and its files; does nothing where there is none."""
    with exclusive(f"cluster-{name}"):
        _remove(name)


def known_clusters() -> list[str]:
    folder = state_directory() / "clusters"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def described(name: str) -> ClusterSpec | None:
    try:
        return ClusterSpec(**json.loads(_spec_path(name).read_text()))
    except FileNotFoundError:
        return None


def answers(name: str) -> bool:
    """Whether the API server responds and is ready."""
    kubeconfig = kubeconfig_path(name)
    if not kubeconfig.exists():
        return False
    try:
        ready = Kubectl(kubeconfig).run("get", "--raw", "/readyz", timeout_s=15)
    except CommandFailed:
        return False
    return ready == "ok"


def load(name: str, images: list[str]) -> None:
    """Puts images of the docker daemon onto every worker; kind skips what a node has already."""
    spec = described(name)
    if spec is None:
        raise TestbedError(f"there is no cluster {name}: bring it up first")
    for image in images:
        if not daemon.has_image(image):
            raise TestbedError(f"docker has no image {image}: build it first (verb `images`)")
    workers = ",".join(worker_name(name, worker) for worker in range(1, spec.workers + 1))
    with step(f"loading {', '.join(images)} onto the workers"):
        command = [str(programs.kind()), "load", "docker-image", *images, "--name", name]
        run([*command, "--nodes", workers], timeout_s=600)


def _prepared() -> tuple[str, programs.Tools]:
    """Node image and tools. Compiling and debootstrap go side by side where both are needed."""
    with ThreadPoolExecutor(1) as beside:
        building = not _node_image_is_at_hand()
        tree = beside.submit(debian.archive, debian.NODE) if building else None
        tools = programs.tools()
        if tree is not None:
            programs.kubernetes()
            tree.result()
    return node_image.ensure(), tools


def _node_image_is_at_hand() -> bool:
    """Whether nothing needs to be compiled: it can be pulled, or is in the daemon or the cache."""
    if os.environ.get("METADATAQUORUM_NODE_IMAGE") == "pull":
        return True
    present = daemon.has_image(node_image.image_name())
    if present or node_image.cached_archive().exists():
        return True
    if os.environ.get("METADATAQUORUM_NODE_IMAGE") == "build":
        return False
    return node_image.registry_answers()


def _create(spec: ClusterSpec, tools: programs.Tools) -> None:
    """kind waits 30 s for a node to boot and can't be told otherwise: a busy machine gets more tries."""
    for tries_left in reversed(range(_TRIES)):
        try:
            _create_once(spec, tools)
            break
        except CommandFailed as failure:
            if tries_left and _BOOTED_TOO_SLOWLY in failure.output:
                say("the nodes did not boot within the 30 s that kind waits; trying again")
                _remove(spec.name)
                continue
            logs = cluster_directory(spec.name).parent.parent / "logs" / spec.name
            export = [str(tools.kind), "export", "logs", str(logs), "--name", spec.name]
            run(export, timeout_s=180, check=False)
            _remove(spec.name)
            raise TestbedError(f"{failure}\nThe nodes' logs are in {logs}") from None
    _spec_path(spec.name).write_text(json.dumps(asdict(spec)))


def _create_once(spec: ClusterSpec, tools: programs.Tools) -> None:
    directory = cluster_directory(spec.name)
    directory.mkdir(parents=True, exist_ok=True)
    _raise_watch_limits()
    disks = Disks(spec.name)
    disks.prepare(spec.workers)
    config = directory / "kind.json"
    config.write_text(json.dumps(_kind_config(spec, disks), indent=1))
    command = [
        str(tools.kind),
        "create",
        "cluster",
        "--name",
        spec.name,
        "--image",
        spec.node_image,
    ]
    command += ["--config", str(config), "--kubeconfig", str(kubeconfig_path(spec.name))]
    command += ["--wait", "180s", "--retain"]
    with step(f"cluster {spec.name}: 1 control plane, {spec.workers} workers", "about 40 s"):
        run(command, timeout_s=_CREATE_TIMEOUT_S)
    _await_ready(spec)


def _await_ready(spec: ClusterSpec) -> None:
    kubectl = Kubectl(kubeconfig_path(spec.name))
    with step("waiting for every node and for DNS"):
        ready = ["wait", "node", "--all", "--for=condition=Ready", "--timeout=180s"]
        kubectl.run(*ready, timeout_s=200)
        rollout = ["rollout", "status", "deployment/coredns", "--timeout=180s"]
        kubectl.run("-n", "kube-system", *rollout, timeout_s=200)


def _remove(name: str) -> None:
    if daemon.answers() and node_names(name):
        with step(f"removing cluster {name}"):
            run([programs.kind(), "delete", "cluster", "--name", name], timeout_s=300)
    Disks(name).remove_all()
    shutil.rmtree(cluster_directory(name), ignore_errors=True)


def _kind_config(spec: ClusterSpec, disks: Disks) -> dict[str, object]:
    ports = [
        {
            "containerPort": port,
            "hostPort": spec.first_host_port + offset,
            "listenAddress": "127.0.0.1",
        }
        for offset, port in enumerate(NODE_PORTS)
    ]
    workers = [
        {
            "role": "worker",
            "extraMounts": [
                {
                    "hostPath": str(disks.folder(worker)),
                    "containerPath": "/disks",
                    "propagation": "HostToContainer",
                }
            ],
        }
        for worker in range(1, spec.workers + 1)
    ]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"apiServerAddress": "127.0.0.1"},
        "nodes": [{"role": "control-plane", "extraPortMappings": ports}, *workers],
    }


def _check_ports(first_host_port: int) -> None:
    """A taken port would only show as an obscure error of docker, after a minute."""
    for port in range(first_host_port, first_host_port + len(NODE_PORTS)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as taken:
                raise TestbedError(
                    f"port {port} of 127.0.0.1 is needed for the cluster's node ports: {taken}. "
                    f"End what uses it, or choose others with --first-host-port."
                ) from None


def _raise_watch_limits() -> None:
    """Each node runs systemd, containerd and a kubelet, which watch many files."""
    for name, least in (("max_user_instances", 1024), ("max_user_watches", 524288)):
        file = Path("/proc/sys/fs/inotify") / name
        if int(file.read_text()) < least:
            with step(f"raising fs.inotify.{name} to {least}"):
                run(as_root(["sysctl", "-q", "-w", f"fs.inotify.{name}={least}"]), timeout_s=10)


def _spec_path(name: str) -> Path:
    return cluster_directory(name) / "cluster.json"
