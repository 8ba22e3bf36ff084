"""Runs a command and measures the CPU time and the peak memory of it and all processes that it starts.

Owns sampling of /proc. Processes that live for less than a sampling interval are missed, and so is the usage after the last sample: a few
hundredths of a second.
"""

import os
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_LOOK_SECONDS = 0.1
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Usage:
    """`peak_mb` by role: the command itself, `java`, and `workers`: all other processes together, at the same moment."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: dict[str, float] = field(default_factory=dict)
    exit_code: int = 0

    def figures(self, records: int) -> dict[str, Any]:
        """Figures for the report. `records`: number of records that the command read."""
        return {
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "records": records,
            "per_second": records / self.seconds,
            "cpu_us_each": 1e6 * self.cpu_seconds / records,
            "peak_mb": {name: round(size) for name, size in sorted(self.peak_mb.items())},
        }


class _Watch:
    """Samples a process and its descendants until `stop`."""

    def __init__(self, root: int) -> None:
        self.usage = Usage()
        self._root = root
        self._ticks: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        self.usage.cpu_seconds = sum(self._ticks.values()) / _TICKS

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        found = {each.pid: each for each in map(_stat, _pids()) if each is not None}
        sizes: dict[str, float] = {}
        for pid, each in found.items():
            if not self._descends(pid, found):
                continue
            self._ticks[pid] = each.ticks
            role = "command" if pid == self._root else "java" if each.name == "java" else "workers"
            sizes[role] = sizes.get(role, 0.0) + each.resident_bytes / 1e6
        for role, size in sizes.items():
            self.usage.peak_mb[role] = max(size, self.usage.peak_mb.get(role, 0.0))

    def _descends(self, pid: int, found: dict[int, "_Process"]) -> bool:
        while pid in found:
            if pid == self._root:
                return True
            pid = found[pid].parent
        return False


@dataclass(slots=True)
class _Process:
    pid: int
    parent: int
    name: str
    ticks: int
    resident_bytes: int


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    begin, end = text.index("(") + 1, text.rindex(")")
    rest = text[end + 2 :].split()
    pages = int(rest[21])
    return _Process(
        pid, int(rest[1]), text[begin:end], int(rest[11]) + int(rest[12]), pages * _PAGE_BYTES
    )


def measured(
    command: Sequence[str],
    timeout_seconds: float,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    env: dict[str, str] | None = None,
) -> Usage:
    """Run the command to its end. Raises RuntimeError with the end of its output if it fails, and TimeoutExpired."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, env=env)
    watch = _Watch(process.pid)
    try:
        _, errors = process.communicate(timeout=timeout_seconds)
    finally:
        process.kill()
        process.wait()
        watch.end()
    usage = watch.usage
    usage.seconds = time.monotonic() - began
    usage.exit_code = process.returncode
    if process.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {errors[-300:]!r}")
    return usage
