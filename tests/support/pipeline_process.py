"""`quorum-pipeline` as a process of its own, and the tables that it wrote. Must not know what is archived."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_COMMAND = [sys.executable, "-m", "quorum_pipeline"]
RUN_SECONDS = 240.0


def run_pipeline(
    *arguments: object, timeout_seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; output and exit code are the caller's to judge."""
    command = [*_COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, env=_environment()
    )


def table(directory: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table that `state --output` wrote."""
    rows: list[dict[str, Any]] = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return rows


def _environment() -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path}
