"""The disks as Kubernetes sees them: local PersistentVolumes of the storage class `disks`."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from testbed.disks import SIZE_MIB, Disk, Disks
from testbed.kubectl import Kubectl
from testbed.nodes import worker_name

STORAGE_CLASS = "disks"
CAPACITY_MIB = 300

assert CAPACITY_MIB <= SIZE_MIB

_Object = Mapping[str, object]


def storage_class() -> _Object:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Retain",
    }


def persistent_volume(cluster: str, disk: Disk) -> _Object:
    on_its_node = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [worker_name(cluster, disk.worker)],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": disk.volume_name},
        "spec": {
            "capacity": {"storage": f"{CAPACITY_MIB}Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": disk.path_on_node},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [on_its_node]}]}
            },
        },
    }


class Volumes:
    """Keeps disks and PersistentVolumes of one cluster in step."""

    def __init__(self, cluster: str, kubeconfig: Path) -> None:
        self.disks = Disks(cluster)
        self._cluster = cluster
        self._kubectl = Kubectl(kubeconfig)

    def provide(self, disks: Iterable[Disk]) -> None:
        """Makes each disk and its volume where there is none yet, or where it was left by a claim
        that is gone. A volume that is in use stays as it is."""
        wanted = list(disks)
        phases = self.phases()
        for disk in wanted:
            phase = phases.get(disk.volume_name)
            if phase is None:
                self.disks.make(disk)
            elif phase in ("Released", "Failed"):
                self.renew(disk)
        self._apply(wanted)

    def renew(self, disk: Disk) -> None:
        """A new, empty disk and a new volume in its place. The old claim must be gone."""
        self._delete_volume(disk)
        self.disks.make(disk)
        self._apply([disk])

    def remove(self, disk: Disk) -> None:
        self._delete_volume(disk)
        self.disks.drop(disk)

    def phases(self) -> dict[str, str]:
        """Phase by name, of our volumes only: Available, Bound, Released, Failed."""
        answer = self._kubectl.get("pv")
        return {
            item["metadata"]["name"]: item["status"].get("phase", "Pending")
            for item in answer["items"]
            if item["spec"].get("storageClassName") == STORAGE_CLASS
        }

    def disk_of_claim(self, namespace: str, claim: str) -> Disk:
        """The disk under a bound PersistentVolumeClaim."""
        answer = self._kubectl.get("pvc", claim, "-n", namespace)
        return Disk.of_volume(answer["spec"]["volumeName"])

    def _delete_volume(self, disk: Disk) -> None:
        delete = ["delete", "pv", disk.volume_name, "--ignore-not-found", "--timeout=60s"]
        self._kubectl.run(*delete, timeout_s=90)

    def _apply(self, disks: Iterable[Disk]) -> None:
        volumes = (persistent_volume(self._cluster, disk) for disk in disks)
        self._kubectl.apply(storage_class(), *volumes)
