"""Simulates a kill of the process between any two of its system calls that change files.

Owns counting the calls and stopping at the n-th one. The directory is then in the state that kill -9 would have left; the test opens it
again. Must not know what is written.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

CALLS = (
    "write", "pwrite", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "truncate", "open",
)  # fmt: skip
_CREATES = os.O_CREAT | os.O_TRUNC


class Killed(BaseException):
    """The process is killed here. `except Exception` must not catch it."""


class CutDisk:
    """Patches `os` while it acts; `calls` counts those that change something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._cut: int | None = None
        self._torn = False
        self.calls = 0
        self.killed_in = ""
        """Name of the call at which the last run was killed; empty: it was not."""

    def run(self, act: Callable[[], object], cut: int | None = None, *, torn: bool = False) -> bool:
        """Run `act`, killed before its call number `cut`; True if it was completed.

        `torn`: a write at which it is killed leaves half of its bytes.
        """
        self.calls, self._cut, self._torn, self.killed_in = 0, cut, torn, ""
        with self._monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._counted(name, getattr(os, name)))
            try:
                act()
            except Killed:
                return False
        return True

    def _counted(self, name: str, original: Callable[..., object]) -> Callable[..., object]:
        def instead(*arguments: object, **named: object) -> object:
            if name == "open" and not int(str(arguments[1])) & _CREATES:
                return original(*arguments, **named)
            if self.calls == self._cut:
                if self._torn and "write" in name:
                    fd, data, *rest = arguments
                    content = memoryview(data)  # type: ignore[arg-type]
                    original(fd, content[: len(content) // 2], *rest)
                self.killed_in = name
                raise Killed(name)
            self.calls += 1
            return original(*arguments, **named)

        return instead


def every_cut(
    monkeypatch: pytest.MonkeyPatch,
    origin: Path,
    act: Callable[[Path], object],
) -> Iterator[tuple[Path, int]]:
    """A copy of `origin` for each point at which `act` can be killed, torn writes included.

    Yields the directory as the kill left it, and the number of calls that were done.
    """
    disk = CutDisk(monkeypatch)
    cut, ended = 0, False
    while not ended:
        for torn in (False, True):
            copy = origin.with_name(f"{origin.name}-cut-{cut}-{int(torn)}")
            shutil.copytree(origin, copy)
            ended = disk.run(lambda: act(copy), cut, torn=torn)  # noqa: B023
            in_a_write = "write" in disk.killed_in
            yield copy, cut
            shutil.rmtree(copy)
            if not in_a_write:
                break
        cut += 1
