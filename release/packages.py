"""The wheel and the source archive."""

import os
import subprocess
import sys
from pathlib import Path

from release.source import Source
from release.stop import ReleaseError


def build(source: Source, output: Path) -> None:
    """hatchling takes all times from SOURCE_DATE_EPOCH (reproducible-builds.org). Raises ReleaseError."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(source.time_s)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(output)]
    done = subprocess.run(
        command, cwd=source.folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ReleaseError(f"hatchling: {done.stdout}{done.stderr}")
