"""The chart as one file for `helm install`."""

import subprocess
from pathlib import Path

from release import testbed
from release.archives import repacked
from release.source import Source
from release.stop import ReleaseError


def build(source: Source, output: Path, version: str) -> Path:
    """Package the chart. `helm package` checks it; the archive is rewritten because helm writes the current time into it."""
    chart = source.folder / "helm" / "metadataquorum"
    command = [str(testbed.helm()), "package", str(chart), "--destination", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(f"helm package: {done.stderr.strip()}")
    made = output / f"metadataquorum-{version}.tgz"
    repacked(made, source.time_s)
    return made
