"""Programs that come as Debian packages: installed when that is possible, named when it is not."""

import shutil

from testbed.commands import TestbedError, as_root, may_be_root, run
from testbed.progress import step

_PACKAGE_OF = {
    "docker": "docker.io",
    "dockerd": "docker.io",
    "debootstrap": "debootstrap",
    "iptables": "iptables",
    "losetup": "mount",
    "mkfs.xfs": "xfsprogs",
    "xfs_io": "xfsprogs",
    "zstd": "zstd",
}
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

# A new machine often updates itself when it has just started; apt-get gives up at once otherwise.
_WAIT_FOR_LOCK = ("-o", "DPkg::Lock::Timeout=240")


def find(program: str) -> str | None:
    """Also looks in the folders of root's programs, which an ordinary PATH does not contain."""
    return shutil.which(program) or shutil.which(program, path=_SYSTEM_PATH)


def need(*programs: str) -> None:
    """Makes sure that every program is there; installs what is missing with apt-get, if it may."""
    missing = [program for program in programs if find(program) is None]
    if not missing:
        return
    packages = sorted({_PACKAGE_OF[program] for program in missing})
    if not (shutil.which("apt-get") and may_be_root()):
        raise TestbedError(
            f"missing: {', '.join(missing)}. Install the packages that bring them "
            f"(on Debian and Ubuntu: apt-get install {' '.join(packages)}), then try again."
        )
    _install(packages)
    still_missing = [program for program in programs if find(program) is None]
    if still_missing == ["docker"]:
        _install(["docker-cli"])  # Debian 13 keeps the client in a package of its own
    elif still_missing:
        raise TestbedError(f"apt-get installed {packages}, but there is no {still_missing} yet")


def _install(packages: list[str]) -> None:
    names = " ".join(packages)
    with step(f"Debian packages {names}", "apt-get install"):
        run(as_root(["apt-get", *_WAIT_FOR_LOCK, "update", "-q"]), timeout_s=300)
        install = [
            "env",
            "DEBIAN_FRONTEND=noninteractive",
            "apt-get",
            *_WAIT_FOR_LOCK,
            "install",
            "-y",
            "-q",
            "--no-install-recommends",
            *packages,
        ]
        # debootstrap checks what it downloads against this keyring, also where the host is Ubuntu
        if "debootstrap" in packages:
            install.append("debian-archive-keyring")
        run(as_root(install), timeout_s=900)
