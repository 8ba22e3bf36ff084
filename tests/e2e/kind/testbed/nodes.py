"""What is done to a kind node from outside: run a command in it, stop, start, signal a container."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.commands import TestbedError, run
from testbed.kubectl import Kubectl


def worker_name(cluster: str, worker: int) -> str:
    """kind's name for worker 1, 2, 3 ...; the same as the Kubernetes node name."""
    return f"{cluster}-worker" + ("" if worker == 1 else str(worker))


def node_names(cluster: str) -> tuple[str, ...]:
    """Every container of the cluster, running or not."""
    command = ["docker", "ps", "-a", "--filter", f"label=io.x-k8s.kind.cluster={cluster}"]
    return tuple(run([*command, "--format", "{{.Names}}"], timeout_s=30).stdout.split())


def gateway_address(cluster: str) -> str:
    """The IPv4 address of the host in the network of the cluster's containers; pods can connect to it."""
    template = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}"
    command = ["docker", "inspect", "-f", template, f"{cluster}-control-plane"]
    address = run(command, timeout_s=30).stdout.strip()
    if not address:
        raise TestbedError(f"the network of cluster {cluster} has no gateway")
    return address


def on_node(node: str, command: Sequence[str], *, timeout_s: float = 60.0) -> str:
    """Runs a command in the node's container as root; returns its output."""
    return run(["docker", "exec", node, *command], timeout_s=timeout_s).stdout


def restart_kubelet(node: str) -> None:
    """Also what brings a deleted Node object back: a kubelet registers only when it starts."""
    on_node(node, ["systemctl", "restart", "kubelet"])


def stop_kubelet(node: str) -> None:
    """Its Node is not ready after a while, and its pods go on; `restart_kubelet` ends that."""
    on_node(node, ["systemctl", "stop", "kubelet"])


def stop_node(node: str) -> None:
    """Ends the node at once, as a power cut does."""
    run(["docker", "kill", "-s", "KILL", node], timeout_s=60)


def is_running(node: str) -> bool:
    """Whether its container runs, and is not paused."""
    state = run(["docker", "inspect", "-f", "{{.State.Status}}", node], timeout_s=60).stdout
    return state.strip() == "running"


def start_node(node: str) -> None:
    run(["docker", "start", node], timeout_s=60)


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container of a pod, as listed by containerd of its node."""

    node: str
    container_id: str


def running_container(
    kubeconfig: Path, namespace: str, pod: str, container: str | None = None
) -> RunningContainer:
    """Raises TestbedError when the pod has no such container running."""
    found = Kubectl(kubeconfig).get("pod", pod, "-n", namespace)
    for status in found["status"].get("containerStatuses", []):
        if container in (None, status["name"]) and "running" in status["state"]:
            identifier = status["containerID"].removeprefix("containerd://")
            return RunningContainer(found["spec"]["nodeName"], identifier)
    raise TestbedError(f"pod {namespace}/{pod} has no running container {container or ''}")


def signal_container(target: RunningContainer, signal: str) -> None:
    """SIGKILL crashes the process, SIGSTOP freezes it, SIGCONT lets it go on."""
    tasks = ["ctr", "--namespace=k8s.io", "tasks", "kill", f"--signal={signal}"]
    on_node(target.node, [*tasks, target.container_id])
