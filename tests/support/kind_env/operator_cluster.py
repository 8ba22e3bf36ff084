"""The cluster with the operator, ready for quorums.

An existing cluster, images, disks and Helm release are reused, so that a second run starts in seconds. Quorums of
earlier runs are removed first.
"""

import os
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

from support.kind_env import installation, kube
from support.kind_env.installation import OPERATOR_NAMESPACE
from support.kind_env.kube import Kube
from support.kind_env.quorum import Quorum
from support.kind_env.testbed import (
    Disk,
    TestbedError,
    Volumes,
    lifecycle,
    network,
    nodes,
    project_images,
)
from support.kind_env.waiting import NotInTime

WORKERS = 3
_DELETE_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class OperatorCluster:
    """A running cluster with the operator."""

    name: str
    kubeconfig: Path
    api: Kube
    volumes: Volumes
    first_host_port: int

    def host_port(self, node_port: int) -> int:
        """The port of 127.0.0.1 that reaches a NodePort."""
        return self.first_host_port + node_port - lifecycle.NODE_PORTS.start

    def provide_disks(self, free_slots: int) -> None:
        """Provide that many free, empty disks on each worker, as PersistentVolumes of the class `disks`.

        Volumes in use are not counted and not changed.
        """
        phases = self.volumes.phases()
        wanted: list[Disk] = []
        for worker in range(1, WORKERS + 1):
            slots = (Disk(worker, slot) for slot in count())
            free = (disk for disk in slots if phases.get(disk.volume_name) != "Bound")
            wanted += islice(free, free_slots)
        self.volumes.provide(wanted)


def cluster_name() -> str:
    """METADATAQUORUM_CLUSTER, so that two checkouts can use different clusters."""
    return os.environ.get("METADATAQUORUM_CLUSTER", "mq")


def bring_up() -> OperatorCluster:
    """Start the cluster without the operator, and restore links that an earlier run had cut."""
    cluster = cluster_name()
    kubeconfig = lifecycle.up(cluster, workers=WORKERS, first_host_port=_first_host_port())
    for node in nodes.node_names(cluster):
        network.heal(node)
    made = lifecycle.described(cluster)
    assert made is not None, f"cluster {cluster} has no description"
    volumes = Volumes(cluster, kubeconfig)
    return OperatorCluster(cluster, kubeconfig, Kube(kubeconfig), volumes, made.first_host_port)


def _first_host_port() -> int:
    """METADATAQUORUM_FIRST_HOST_PORT, so that two clusters can run at the same time."""
    return int(os.environ.get("METADATAQUORUM_FIRST_HOST_PORT", lifecycle.NODE_PORTS.start))


def load_images(cluster: OperatorCluster) -> tuple[str, str]:
    """Build both images if they changed, and load them on the workers; returns node and operator image."""
    node_image, operator_image = project_images.build_all()
    lifecycle.load(cluster.name, [node_image, operator_image])
    return node_image, operator_image


def install_operator(cluster: OperatorCluster, operator_image: str) -> None:
    """Install or upgrade the operator by Helm."""
    installation.helm_install(cluster.kubeconfig, operator_image)


def remove_quorum(cluster: OperatorCluster, namespace: str, name: str) -> None:
    """Delete the resource, its objects and its claims, if it exists."""
    quorum = Quorum(cluster.api, namespace, name)
    resource = cluster.api.find(kube.quorums(namespace, name)) if _crd_exists(cluster.api) else None
    if resource is not None:
        cluster.api.delete(quorum.path)
        try:
            quorum.wait_gone(timeout_s=_DELETE_TIMEOUT_S)
        except NotInTime as late:
            raise TestbedError(
                f"{late}. The operator should have removed it: look at its log with "
                f"`kubectl -n {OPERATOR_NAMESPACE} logs deploy/{installation.RELEASE}`, or begin "
                "anew with `make clean`."
            ) from None
    for claim in quorum.claims():
        cluster.api.delete(
            kube.core(namespace, "persistentvolumeclaims", claim["metadata"]["name"])
        )


def _crd_exists(api: Kube) -> bool:
    return api.find(f"{kube.CRDS}/metadataquorums.metadataquorum.dev") is not None
