"""Fault injection: crashes of processes, failures of file systems, removal of volumes and nodes.

Every fault is a real one, injected from outside the pods: a signal, a file system without a disk, a deleted object.
Nothing here waits for the operator.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from support.kind_env import kube
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import Disk, Volumes, nodes


@dataclass(frozen=True, slots=True)
class FailedDisk:
    """A failed disk, its member, and the time of the failure."""

    disk: Disk
    node_id: int
    uuid: str
    pod: str
    at_ms: float


class Faults:
    """Faults on one quorum of one cluster."""

    def __init__(self, quorum: Quorum, cluster: str, kubeconfig: Path) -> None:
        self._quorum = quorum
        self._kubeconfig = kubeconfig
        self.volumes = Volumes(cluster, kubeconfig)

    def kill_9(self, pod: str) -> None:
        """SIGKILL to the node's process, as its kernel's out-of-memory killer would."""
        self._signal(pod, "SIGKILL")

    def freeze(self, pod: str) -> None:
        self._signal(pod, "SIGSTOP")

    def thaw(self, pod: str) -> None:
        self._signal(pod, "SIGCONT")

    def disk_of(self, pod: str) -> Disk:
        """The disk under the pod's data claim."""
        return self.volumes.disk_of_claim(self._quorum.namespace, f"data-{pod}")

    def fail_disk(self, node_id: int, uuid: str) -> FailedDisk:
        """Shuts down the filesystem under a member; from then on every access gives EIO."""
        pod = self._quorum.pod_of(node_id, uuid)
        disk = self.disk_of(pod)
        at_ms = time.monotonic() * 1000
        self.volumes.disks.fail(disk)
        return FailedDisk(disk, node_id, uuid, pod, at_ms)

    def heal_disk(self, failed: FailedDisk) -> None:
        """Repair the disk with its data."""
        self.volumes.disks.heal(failed.disk)

    def delete_claim(self, pod: str) -> None:
        """The claim stays Terminating as long as the pod uses it."""
        namespace = self._quorum.namespace
        self._quorum.api.delete(kube.core(namespace, "persistentvolumeclaims", f"data-{pod}"))

    def delete_pod(self, pod: str, *, grace_s: int | None = None) -> None:
        self._quorum.api.delete(kube.core(self._quorum.namespace, "pods", pod), grace_s=grace_s)

    def node_of(self, pod: str) -> str:
        found = self._quorum.api.get(kube.core(self._quorum.namespace, "pods", pod))
        return str(found["spec"]["nodeName"])

    def _signal(self, pod: str, signal: str) -> None:
        target = nodes.running_container(self._kubeconfig, self._quorum.namespace, pod)
        nodes.signal_container(target, signal)
