"""`quorum-pipeline` as a process of its own: run to its end, or followed, interrupted and killed.

Owns the process, its group (Python and the Java process that it started) and its output. Must not know what is archived.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from support.interruptible import interruptible

_COMMAND = [sys.executable, "-m", "quorum_pipeline"]
RUN_SECONDS = 240.0


def run_pipeline(
    *arguments: object, timeout_seconds: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end. The caller checks output and exit code."""
    command = [*_COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_seconds, env=_environment()
    )


class PipelineProcess:
    """One command that goes on. Use as a context manager: it ends the process."""

    def __init__(self, output: Path, *arguments: object) -> None:
        self._output = output
        with output.open("ab") as file, interruptible():
            self._process = subprocess.Popen(
                [*_COMMAND, *map(str, arguments)],
                stdout=file,
                stderr=file,
                env=_environment(),
                start_new_session=True,
            )

    def __enter__(self) -> "PipelineProcess":
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    @property
    def output(self) -> str:
        """All that it has printed."""
        return self._output.read_text()

    @property
    def is_running(self) -> bool:
        """Whether it lives."""
        return self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of it and of its Java process, like the end of a container; waits for the end."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(30)

    def kill_java(self) -> None:
        """kill -9 of its Java process alone, as by a system without memory."""
        lists = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        children = [int(each) for file in lists for each in file.read_text().split()]
        (java,) = (n for n in children if Path(f"/proc/{n}/comm").read_text() == "java\n")
        os.kill(java, signal.SIGKILL)

    def interrupt(self, timeout_seconds: float = 120.0) -> int:
        """Ctrl-C in a terminal, which reaches the virtual machine, too; the exit code."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self._process.wait(timeout_seconds)

    def wait_exit(self, timeout_seconds: float = 240.0) -> int:
        """The exit code, once it has ended by itself."""
        return self._process.wait(timeout_seconds)


def table(directory: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a table that `state --output` wrote."""
    rows: list[dict[str, Any]] = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return rows


def _environment() -> dict[str, str]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path}
