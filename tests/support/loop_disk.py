"""Real file systems on loop devices that can be made to fail or fill up. Needs root and loop devices."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def missing_for_loop_disks() -> str | None:
    """What this machine lacks for LoopDisk; None if nothing is missing."""
    if os.geteuid() != 0:
        return "mounting a filesystem needs root"
    for program in ("losetup", "mkfs.xfs", "xfs_io", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return None if Path("/dev/loop-control").exists() else "no loop devices here"


def require_loop_disks() -> None:
    """Skip the test, with the reason, where no loop device can be mounted."""
    if (missing := missing_for_loop_disks()) is not None:
        pytest.skip(missing)


class LoopDisk:
    """One filesystem, mounted at `mount_point`."""

    def __init__(self, root: Path, size_mib: int, kind: str = "xfs") -> None:
        self.mount_point = root / "mnt"
        self.mount_point.mkdir(parents=True)
        self._image = root / "disk.img"
        with self._image.open("wb") as image:
            image.truncate(size_mib << 20)
        self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
        self._kind = kind
        self.mounted = False
        try:
            options = ["-q"] if kind == "xfs" else ["-q", "-F", "-m", "0"]
            _run(f"mkfs.{kind}", *options, self._device)
            _run("mount", "-t", kind, self._device, str(self.mount_point))
        except BaseException:
            self.close()
            raise
        self.mounted = True

    def shut_down(self) -> None:
        """Every write and fsync fails with EIO from now on (XFS)."""
        _run("xfs_io", "-x", "-c", "shutdown", str(self.mount_point))

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all free space but about `leave_bytes`."""
        path = self.mount_point / "filler"
        with path.open("ab", buffering=0) as filler:
            for block_bytes in (256 * 1024, 4096, 512):
                try:
                    while self.free_bytes > leave_bytes + block_bytes or not leave_bytes:
                        filler.write(bytes(block_bytes))
                        os.fsync(filler.fileno())
                except OSError:
                    continue

    @property
    def free_bytes(self) -> int:
        """Free bytes reported by the file system."""
        stat = os.statvfs(self.mount_point)
        return stat.f_bavail * stat.f_frsize

    def free(self) -> None:
        """Release the space again."""
        (self.mount_point / "filler").unlink()

    def remount(self) -> None:
        """As after a reboot: nothing is cached, and the device works again. No process may use it.

        Uses another device: a mount namespace that was created meanwhile may keep the old one.
        """
        _run("umount", str(self.mount_point))
        self.mounted = False
        subprocess.run(["losetup", "--detach", self._device], check=False)
        self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
        options = ["-o", "nouuid"] if self._kind == "xfs" else []
        _run("mount", "-t", self._kind, *options, self._device, str(self.mount_point))
        self.mounted = True

    def close(self) -> None:
        """Unmount and detach."""
        if self.mounted:
            subprocess.run(["umount", "--lazy", str(self.mount_point)], check=False)
        subprocess.run(["losetup", "--detach", self._device], check=False)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
