"""The test bed's programs: helm, and the images as the end-to-end tests use them."""

import subprocess
import sys
from pathlib import Path

from release.source import ROOT
from release.stop import ReleaseError

_CLUSTER = ROOT / "tests" / "e2e" / "kind" / "cluster.py"


def ask(verb: str) -> list[str]:
    """The lines that a verb of `cluster.py` prints. Raises ReleaseError."""
    done = subprocess.run([sys.executable, str(_CLUSTER), verb], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"cluster.py {verb} failed: its lines above say why")
    return done.stdout.split("\n")[:-1]


def helm() -> Path:
    """helm on PATH, or built once."""
    return Path(ask("helm")[-1]) / "helm"
