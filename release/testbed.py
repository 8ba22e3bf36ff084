"""Programs of the test bed: helm, and the image build of the end-to-end tests."""

import subprocess
import sys
from pathlib import Path

from release.source import ROOT
from release.stop import ReleaseError

_CLUSTER = ROOT / "tests" / "e2e" / "kind" / "cluster.py"


def ask(verb: str) -> list[str]:
    """Output lines of a command of `cluster.py`. Raises ReleaseError."""
    done = subprocess.run([sys.executable, str(_CLUSTER), verb], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"cluster.py {verb} failed: its lines above say why")
    return done.stdout.split("\n")[:-1]


def helm() -> Path:
    """helm from PATH, or built once."""
    return Path(ask("helm")[-1]) / "helm"
