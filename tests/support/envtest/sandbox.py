"""A private view of the file system for one container, with its volumes at their mount points.

Owns the shell script that builds the view in a new mount namespace and then executes the container's program (with the
same process id, so that signals reach the program). The machine's files are visible through symbolic links; nothing is
created there. Needs root.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from support.warm_process import View

_HOST = "/.host"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Mount:
    """`source` (a directory or file of the machine) is mounted at `target` in the container."""

    source: Path
    target: PurePosixPath
    read_only: bool = False


def command(root: Path, mounts: Sequence[Mount], program: Sequence[str]) -> list[str]:
    """The command that runs `program` under `root` (an empty directory) with `mounts`.

    The program dies with the thread that started it (no stray replicas after a killed test run).
    """
    script = "\n".join(["set -eu", *_build(root, mounts), _become(root, program)])
    isolated = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script]
    return ["setpriv", "--pdeathsig", "KILL", *isolated]


def view(root: Path, mounts: Sequence[Mount]) -> View:
    """The same for a program that is started as a fork."""
    lines = ["set -eu", "mount --make-rprivate /", *_build(root, mounts)]
    return View("\n".join(lines), str(root))


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """A container's environment: its own variables and a PATH, nothing of the machine's."""
    return {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8", **own}


def _build(root: Path, mounts: Sequence[Mount]) -> list[str]:
    at = shlex.quote(str(root))
    lines = [
        f"mount -t tmpfs -o size=16m,mode=755 harness {at}",
        f"mkdir {at}{_HOST}",
        f"mount --rbind / {at}{_HOST}",
    ]
    targets = {mount.target for mount in mounts}
    for directory in _real_directories(targets):
        lines += _directory(root, directory, targets)
    for mount in sorted(mounts, key=lambda each: len(each.target.parts)):
        source, target = (shlex.quote(str(p)) for p in (mount.source, _under(root, mount.target)))
        # isfile says False, and does not raise, for a directory on a failed disk.
        is_file = os.path.isfile(mount.source)
        lines.append(f": >{target}" if is_file else f"mkdir -p {target}")
        lines.append(f"mount --bind {source} {target}")
        if mount.read_only:
            lines.append(f"mount -o remount,bind,ro {target}")
    return lines


def _real_directories(targets: set[PurePosixPath]) -> list[PurePosixPath]:
    """Every ancestor of a target, outermost first: these can't be links into the machine's tree.

    A target inside another target is made inside that mount, not here.
    """
    outer = {t for t in targets if not any(parent in targets for parent in t.parents)}
    found = {PurePosixPath("/")} | {parent for target in outer for parent in target.parents}
    return sorted(found, key=lambda path: len(path.parts))


def _directory(root: Path, directory: PurePosixPath, targets: set[PurePosixPath]) -> list[str]:
    """Makes `directory` and fills it with links to what the machine has there."""
    at = shlex.quote(str(_under(root, directory)))
    lines = [] if directory == PurePosixPath("/") else [f"mkdir -p {at}"]
    real = set(_real_directories(targets)) | targets
    present = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    shown = [name for name in present if directory / name not in real]
    if shown:
        links = " ".join(shlex.quote(f"{_HOST}{directory / name}") for name in shown)
        lines.append(f"ln -s -t {at} {links}")
    return lines


def _under(root: Path, path: PurePosixPath) -> Path:
    return root / path.relative_to("/")


def _become(root: Path, program: Sequence[str]) -> str:
    return f"exec chroot {shlex.quote(str(root))} {shlex.join(program)}"
