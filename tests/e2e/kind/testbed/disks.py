"""Disks that really fail: an XFS filesystem in a file, on a loop device, mounted on the host.

Each worker sees its own folder as /disks (kind's extraMounts; mounts made later travel in by
propagation). A failed disk is one whose filesystem was shut down under the pod: from then on every
read, write and fsync gives EIO, until it is unmounted everywhere and mounted again.
"""

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from testbed import packages
from testbed.commands import TestbedError, as_root, run, succeeds
from testbed.places import cluster_directory

SIZE_MIB = 384
"""mkfs.xfs refuses less than 300 MiB, and 64 of them are its journal. The files are sparse."""

OWNER = 65532
"""User and group of the project's pods, who own the root of each disk."""

_FILLER = ".filler"
_ALIGNMENT = 4096


class DiskState(StrEnum):
    ABSENT = "absent"
    UNMOUNTED = "unmounted"
    HEALTHY = "healthy"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, order=True)
class Disk:
    """Slot 0, 1, 2 ... of worker 1, 2, 3 ..."""

    worker: int
    slot: int

    def __str__(self) -> str:
        return f"w{self.worker}-s{self.slot}"

    @property
    def path_on_node(self) -> str:
        return f"/disks/s{self.slot}"

    @property
    def volume_name(self) -> str:
        """Of its PersistentVolume."""
        return f"disk-{self}"

    @classmethod
    def of_volume(cls, volume_name: str) -> "Disk":
        found = re.fullmatch(r"disk-w(\d+)-s(\d+)", volume_name)
        if found is None:
            raise TestbedError(f"PersistentVolume {volume_name} is none of our disks")
        return cls(int(found[1]), int(found[2]))


class Disks:
    """The disks of one cluster. Every method needs root, directly or through sudo."""

    def __init__(self, cluster: str) -> None:
        self.root = cluster_directory(cluster) / "disks"
        self._images = cluster_directory(cluster) / "disk-images"

    def prepare(self, workers: int) -> None:
        """The folders that kind mounts. The root must be a shared mount, or nothing propagates."""
        packages.need("mkfs.xfs", "xfs_io", "losetup")
        for worker in range(1, workers + 1):
            self.folder(worker).mkdir(parents=True, exist_ok=True)
        self._images.mkdir(parents=True, exist_ok=True)
        if self.root not in _mount_points():
            self._root("mount", "--bind", self.root, self.root)
        self._root("mount", "--make-shared", self.root)

    def folder(self, worker: int) -> Path:
        """Mounted at /disks of the worker."""
        return self.root / f"w{worker}"

    def mount_point(self, disk: Disk) -> Path:
        return self.folder(disk.worker) / f"s{disk.slot}"

    def image(self, disk: Disk) -> Path:
        return self._images / f"{disk}.img"

    def all(self) -> list[Disk]:
        names = [path.stem for path in self._images.glob("w*-s*.img")]
        return sorted(Disk.of_volume(f"disk-{name}") for name in names)

    def state(self, disk: Disk) -> DiskState:
        if not self.image(disk).exists():
            return DiskState.ABSENT
        if self.mount_point(disk) not in _mount_points():
            return DiskState.UNMOUNTED
        # The disk belongs to the pods' user, so that every user but root would be refused
        listing = ["env", "LC_ALL=C", "ls", "-A", str(self.mount_point(disk))]
        done = run(as_root(listing), timeout_s=30, check=False)
        if done.returncode == 0:
            return DiskState.HEALTHY
        if os.strerror(errno.EIO) in done.stderr:
            return DiskState.FAILED
        raise TestbedError(f"disk {disk}: {done.stderr.strip()}")

    def make(self, disk: Disk, *, size_mib: int = SIZE_MIB) -> None:
        """An empty, healthy disk. What was in the slot is dropped."""
        self.drop(disk)
        point, image = self.mount_point(disk), self.image(disk)
        with open(image, "wb") as file:
            file.truncate(size_mib << 20)
        self._root("mkfs.xfs", "-q", "-f", image)
        self._root("mkdir", "-p", point)
        self._mount(disk)
        self._root("chown", f"{OWNER}:{OWNER}", point)
        self._root("chmod", "0770", point)
        # A failure right after this would else take the new owner away again
        self._root("sync", "-f", point)

    def fail(self, disk: Disk) -> None:
        """From now on everything on this disk gives EIO; what was not synced is lost."""
        self._root("xfs_io", "-x", "-c", "shutdown", self.mount_point(disk))
        if self.state(disk) is not DiskState.FAILED:
            raise TestbedError(f"disk {disk} was shut down but still answers")

    def heal(self, disk: Disk) -> None:
        """Mounts the disk again, healthy, with what was on it. A pod that still holds the failed
        filesystem keeps its errors until it is deleted; the next pod finds the healthy one."""
        self._unmount(disk)
        self._mount(disk)
        if self.state(disk) is not DiskState.HEALTHY:
            raise TestbedError(f"disk {disk} was mounted again but does not answer")

    def fill(self, disk: Disk, *, leave_bytes: int = 0) -> None:
        """Takes the free space away: writes give ENOSPC, which is not a failed disk."""
        filler = self.mount_point(disk) / _FILLER
        size = filler.stat().st_size if filler.exists() else 0
        part = _aligned(self.free_bytes(disk))
        # The filesystem keeps some blocks for its own account: what is refused is tried by halves
        while (part := min(part, _aligned(self.free_bytes(disk) - leave_bytes))) > 0:
            if self._try("fallocate", "-o", str(size), "-l", str(part), filler):
                size += part
            else:
                part = _aligned(part // 2)
        self._root("sync", "-f", self.mount_point(disk))

    def empty(self, disk: Disk) -> None:
        """Gives back the space that `fill` took."""
        self._root("rm", "-f", self.mount_point(disk) / _FILLER)

    def free_bytes(self, disk: Disk) -> int:
        status = os.statvfs(self.mount_point(disk))
        return status.f_bfree * status.f_frsize

    def drop(self, disk: Disk) -> None:
        """Unmounts and removes it; does nothing where there is none."""
        self._unmount(disk)
        if self.mount_point(disk).exists():
            self._root("rmdir", self.mount_point(disk))
        self.image(disk).unlink(missing_ok=True)

    def remove_all(self) -> None:
        """Leaves no mount, no loop device and no file of any disk of the cluster behind."""
        for disk in self.all():
            self.drop(disk)
        points = sorted((p for p in _mount_points() if p.is_relative_to(self.root)), reverse=True)
        for point in points:
            self._root("umount", "-l", point)
        if self.root.exists():
            self._root("rm", "-rf", "--one-file-system", self.root, self._images)

    def _mount(self, disk: Disk) -> None:
        # A new loop device every time: the failed filesystem may live on in a pod on the old one.
        # That one writes nothing any more, so the second mount of the same file (nouuid) is safe.
        image = self.image(disk)
        device = self._root("losetup", "--find", "--show", image).strip()
        try:
            options = "nouuid,nodev,nosuid"
            self._root("mount", "-t", "xfs", "-o", options, device, self.mount_point(disk))
        finally:
            # Takes effect with the last unmount, so that no loop device stays behind
            self._root("losetup", "--detach", device)

    def _unmount(self, disk: Disk) -> None:
        while self.mount_point(disk) in _mount_points():
            self._root("umount", "-l", self.mount_point(disk))

    def _root(self, program: str, *arguments: str | Path) -> str:
        found = packages.find(program) or program
        return run(as_root([found, *arguments]), timeout_s=60).stdout

    def _try(self, program: str, *arguments: str | Path) -> bool:
        return succeeds(as_root([packages.find(program) or program, *arguments]), timeout_s=60)


def _aligned(size: int) -> int:
    return size // _ALIGNMENT * _ALIGNMENT


def _mount_points() -> Sequence[Path]:
    """Every mount point of this process, with the kernel's octal escapes undone."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [Path(re.sub(r"\\(\d{3})", _unescaped, line.split()[4])) for line in lines]


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))
