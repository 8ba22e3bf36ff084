"""The data of the test's volumes: plain directories, or disks that can fail.

Owns the storage classes, the directories and the XFS file systems on loop devices. A failed disk is a file system that
was shut down: every access gives EIO, as with a failed device. Disks need root. Must not know pods.
"""

import contextlib
import shutil
import subprocess
from pathlib import Path

from support.envtest.kube_api import Json

FOLDER_PREFIX = "metadataquorum-harness-"
"""Followed by the id of the process that the folder belongs to."""
PROVISIONER = "harness.local/directory"
DIRECTORY_CLASS = "directory"
OTHER_DIRECTORY_CLASS = "other-directory"
DISK_CLASS = "disk"
CLASSES = (DIRECTORY_CLASS, OTHER_DIRECTORY_CLASS, DISK_CLASS)
_DISK_SIZE_MIB = 300
_FILLER = "filler"
_COMMAND_TIMEOUT_S = 30.0


def storage_classes() -> list[Json]:
    """Two classes of plain directories (the first is the default) and one of disks."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name, "annotations": default if name == DIRECTORY_CLASS else {}},
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        }
        for name in CLASSES
    ]


def persistent_volume(claim: Json, path: Path, node: str) -> Json:
    """The PV object for `claim`, bound to it and to the node that the pod was given."""
    metadata, spec = claim["metadata"], claim["spec"]
    on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": volume_name(claim),
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
        },
    }


def volume_name(claim: Json) -> str:
    return f"pvc-{claim['metadata']['uid']}"


class Volumes:
    """The directories and disks under one folder, by the name of their PV."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        return self._folder / name

    def make(self, name: str, storage_class: str) -> Path:
        """Create a directory or a mounted disk for a PV. Can be repeated."""
        path = self.path(name)
        if _is_mounted(path):
            return path
        path.mkdir(exist_ok=True)
        if storage_class == DISK_CLASS:
            image = self._image(name)
            with open(image, "wb") as file:
                file.truncate(_DISK_SIZE_MIB << 20)
            _run("mkfs.xfs", "-q", "-f", image)
            _run("mount", "-o", "loop", image, path)
        return path

    def fail(self, name: str) -> None:
        """From now on every access to the disk fails with EIO."""
        _run("xfs_io", "-x", "-c", "shutdown", self.path(name))

    def revive(self, name: str) -> None:
        """Repair the disk; it has the data from the time of its failure."""
        _run("umount", "--lazy", self.path(name))
        # A mount namespace of a pod may still hold the failed mount, so the content is copied to a
        # new one.
        image = self._image(name)
        copy = image.with_suffix(".revived")
        shutil.copyfile(image, copy)
        _run("mount", "-o", "loop,nouuid", copy, self.path(name))

    def fill(self, name: str) -> None:
        """Fill the disk completely."""
        with open(self.path(name) / _FILLER, "wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 16))
                file.flush()

    def empty(self, name: str) -> None:
        """Undo `fill`."""
        (self.path(name) / _FILLER).unlink()

    def detach(self, name: str) -> None:
        """Make new mounts of the volume fail; existing mounts stay."""
        self.path(name).rename(self.path(f"{name}.detached"))

    def remove(self, name: str) -> None:
        if _is_mounted(self.path(name)):
            _run("umount", "--lazy", self.path(name))
        for path in (self.path(name), *self._folder.glob(f"{name}.*")):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def remove_all(self) -> None:
        for name in {path.name.split(".")[0] for path in self._folder.iterdir()}:
            self.remove(name)

    def _image(self, name: str) -> Path:
        return self._folder / f"{name}.image"


def remove_abandoned(parent: Path) -> None:
    """Removes the folders (and their disks) of harness processes that were killed."""
    for folder in parent.glob(f"{FOLDER_PREFIX}*"):
        owner = folder.name.removeprefix(FOLDER_PREFIX).split("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            Volumes(folder / "kubelet" / "volumes").remove_all()
            shutil.rmtree(folder, ignore_errors=True)


def _is_mounted(path: Path) -> bool:
    """Whether it is mounted, from the kernel's table, because a failed disk itself gives EIO."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return any(line.split(" ")[1] == str(path) for line in mounts)


def _run(*words: str | Path) -> None:
    subprocess.run(
        [str(word) for word in words], check=True, capture_output=True, timeout=_COMMAND_TIMEOUT_S
    )
