"""Prometheus and promtool: found on PATH, else unpacked from Debian's package into the cache. Nothing is installed."""

import shutil
import tempfile
from pathlib import Path

from testbed import packages
from testbed.commands import TestbedError, as_root, may_be_root, run
from testbed.pins import DEBIAN_SUITE
from testbed.places import cache_directory, exclusive
from testbed.progress import step

_PACKAGE = "prometheus"


def program(name: str) -> Path:
    """`prometheus` or `promtool`. Raises TestbedError where neither PATH nor a Debian archive has it."""
    on_path = packages.find(name)
    return Path(on_path) if on_path is not None else _unpacked() / "usr" / "bin" / name


def _unpacked() -> Path:
    target = cache_directory() / "programs" / f"{_PACKAGE}-{DEBIAN_SUITE}"
    if target.exists():
        return target
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise TestbedError(f"no {_PACKAGE} on PATH, and no apt-get to fetch Debian's package")
    with exclusive(f"program-{_PACKAGE}"):
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{_PACKAGE}.") as scratch:
            with step(f"Debian package {_PACKAGE}", "apt-get download"):
                _fetch(Path(scratch))
            tree = Path(scratch) / "tree"
            tree.chmod(0o755)
            tree.rename(target)
    return target


def _fetch(scratch: Path) -> None:
    """Unpacks the package to `scratch`/tree."""
    download = ["apt-get", "download", "-q", _PACKAGE]
    if run(download, timeout_s=300, directory=scratch, check=False).returncode != 0:
        if not may_be_root():
            raise TestbedError(f"apt-get can't download {_PACKAGE}, and its lists need root")
        run(as_root(["apt-get", "update", "-q"]), timeout_s=300)
        run(download, timeout_s=300, directory=scratch)
    (archive,) = scratch.glob(f"{_PACKAGE}_*.deb")
    run(["dpkg-deb", "-x", archive, scratch / "tree"], timeout_s=120)
