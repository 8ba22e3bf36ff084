"""The linearizability checker porcupine: a small Go program around it, built once, and its verdicts.

The program is in tests/linearizability/checker; the binary is cached outside of the checkout by a hash of its sources. Histories are
passed as documents.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from support.linearizability.history import Group, document
from support.stock_kafka import cache_directory

_SOURCE = Path(__file__).resolve().parents[2] / "linearizability" / "checker"
_FILES = ("main.go", "go.mod", "go.sum")
_BUILD_TIMEOUT_SECONDS = 600
_MINIMUM_GO = "1.23"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`result`: Ok, Illegal, or Unknown after a timeout. `picture`: an HTML page unless Ok."""

    name: str
    result: str
    picture: str

    def __str__(self) -> str:
        return f"{self.name}: {self.result}; the history as a picture: file://{self.picture}"


def program() -> Path:
    """The checker, built on first use."""
    digest = hashlib.sha256(b"".join((_SOURCE / name).read_bytes() for name in _FILES))
    target = cache_directory() / "programs" / f"linearizability-{digest.hexdigest()[:16]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name("linearizability.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target)
    return target


def check(groups: Iterable[Group], pictures: Path, timeout_seconds: float = 100.0) -> list[Verdict]:
    """A result for every history; `timeout_seconds` for each."""
    pictures.mkdir(parents=True, exist_ok=True)
    request = {
        "histories": document(groups),
        "pictures": str(pictures),
        "timeoutMs": round(timeout_seconds * 1000),
    }
    done = subprocess.run(
        [str(program())], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"the checker failed: {done.stderr}")
    return [Verdict(**each) for each in json.loads(done.stdout)]


def _build(target: Path) -> None:
    if shutil.which("go") is None:
        raise RuntimeError(f"Go {_MINIMUM_GO} or newer is needed to build the checker")
    partial = target.with_suffix(".partial")
    build = [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-o",
        str(partial),
        ".",
    ]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(
        build,
        cwd=_SOURCE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the checker can't be built: {done.stderr}")
    partial.rename(target)
