"""Debian trees as docker images, for machines that cannot pull any: made by debootstrap, cached.

Each tree is in the cache as an archive under a hash of its package list; the daemon keeps the
image made of it under a tag with the same hash.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import daemon, fingerprint, packages
from testbed.commands import TestbedError, as_root, pipe, run
from testbed.pins import DEBIAN_SUITE
from testbed.places import cache_directory, exclusive
from testbed.progress import step

_TRIMMED = (
    "./dev/*",
    "./etc/machine-id",
    "./proc/*",
    "./sys/*",
    "./tmp/*",
    "./usr/share/doc/*",
    "./usr/share/i18n/*",
    "./usr/share/info/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*.log",
    "./var/log/apt/*",
)
_DEBOOTSTRAP_TIMEOUT_S = 1200.0


@dataclass(frozen=True, slots=True)
class Tree:
    """A minimal Debian with some packages; `changes` are Dockerfile lines about its configuration."""

    name: str
    packages: tuple[str, ...]
    changes: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return fingerprint.of(DEBIAN_SUITE, *self.packages, "/", *self.changes, "/", *_TRIMMED)

    @property
    def image(self) -> str:
        return f"metadataquorum-{self.name}:{DEBIAN_SUITE}-{self.key}"

    @property
    def archive(self) -> Path:
        return cache_directory() / "debian" / f"{self.name}-{DEBIAN_SUITE}-{self.key}.tar.zst"


PYTHON = Tree(
    "python-base",
    ("python3", "ca-certificates"),
    ('CMD ["python3"]', "ENV LANG=C.UTF-8"),
)

JAVA = Tree(
    "java-base",
    ("openjdk-17-jre-headless", "ca-certificates"),
    ("ENV LANG=C.UTF-8",),
)

PIPELINE = Tree(
    "pipeline-base",
    tuple(dict.fromkeys((*PYTHON.packages, *JAVA.packages))),
    PYTHON.changes,
)

NODE = Tree(
    "node-base",
    (
        "systemd",
        "systemd-sysv",
        "dbus",
        "containerd",
        "runc",
        "containernetworking-plugins",
        "iptables",
        "nftables",
        "iproute2",
        "conntrack",
        "ethtool",
        "kmod",
        "procps",
        "mount",
        "util-linux",
        "ca-certificates",
        "ebtables",
        "socat",
        "hostname",
        "libseccomp2",
    ),
)


def archive(tree: Tree) -> Path:
    """The tree as a compressed tar archive; needs no docker daemon."""
    if tree.archive.exists():
        return tree.archive
    with exclusive(f"debian-{tree.name}"):
        if not tree.archive.exists():
            packages.need("debootstrap", "zstd")
            tree.archive.parent.mkdir(parents=True, exist_ok=True)
            with step(
                f"Debian tree {tree.name}", "debootstrap, 1 to 2 minutes, only the first time"
            ):
                _bootstrap(tree)
    return tree.archive


def image(tree: Tree) -> str:
    """The tree as an image in the docker daemon; returns its name."""
    if daemon.has_image(tree.image):
        return tree.image
    path = archive(tree)
    changes = [word for line in tree.changes for word in ("-c", line)]
    with step(f"docker import of {tree.name}"):
        pipe(["zstd", "-dc", path], ["docker", "import", *changes, "-", tree.image], timeout_s=300)
    return tree.image


def _bootstrap(tree: Tree) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{tree.name}.", dir=tree.archive.parent))
    partial = scratch / "archive"
    root = scratch / "root"
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(tree.packages)}"]
        debootstrap = packages.find("debootstrap")
        assert debootstrap is not None
        _run_debootstrap([debootstrap, *command[1:], DEBIAN_SUITE, str(root)], root)
        excluded = [f"--exclude={pattern}" for pattern in _TRIMMED]
        pipe(
            as_root(["tar", "-C", root, "--numeric-owner", "-c", *excluded, "."]),
            ["zstd", "-3", "-T0", "-q", "-c"],
            timeout_s=300,
            output=partial,
        )
        partial.rename(tree.archive)
    finally:
        run(as_root(["rm", "-rf", "--one-file-system", scratch]), timeout_s=120, check=False)
        shutil.rmtree(scratch, ignore_errors=True)


def _run_debootstrap(command: Sequence[str], root: Path) -> None:
    done = run(as_root(command), timeout_s=_DEBOOTSTRAP_TIMEOUT_S, check=False)
    if done.returncode == 0:
        return
    log = root / "debootstrap" / "debootstrap.log"
    tail = log.read_text(errors="replace").splitlines()[-8:] if log.exists() else []
    output = (done.stdout + done.stderr).strip().splitlines()[-3:]
    raise TestbedError("\n".join(["debootstrap failed:", *output, *tail]))
