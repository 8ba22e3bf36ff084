"""Reports where a test with Spark hangs: the threads of this process and of its JVM, and what the Python workers wait for.

Looks from outside, because a hanging process can't answer. Used when a test is about to reach its time limit, since the state is gone
afterwards.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from faulthandler import dump_traceback
from pathlib import Path

_BEFORE_LIMIT_SECONDS = 10.0
_JSTACK_SECONDS = 20.0


def reported_before(limit_seconds: float, pid: int) -> AbstractContextManager[None]:
    """Prints the report to standard error shortly before the limit. `pid`: of the JVM."""
    return _unless_over_within(
        max(limit_seconds - _BEFORE_LIMIT_SECONDS, limit_seconds / 2),
        lambda: print(process_states(pid), file=sys.stderr, flush=True),
    )


def killed_after(seconds: float, pid: int) -> AbstractContextManager[None]:
    """A hanging Spark also hangs when it is stopped: the JVM is killed after this time."""

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    return _unless_over_within(seconds, kill)


@contextlib.contextmanager
def _unless_over_within(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def process_states(pid: int) -> str:
    """`pid`: of the JVM."""
    with tempfile.TemporaryFile("w+") as file:
        dump_traceback(file=file)
        file.seek(0)
        here = file.read()
    below = [each for child in _children(pid) for each in (child, *_children(child))]
    processes = "\n".join(_process(each) for each in below)
    return f"== this process\n{here}\n== Spark's processes\n{processes}\n== the JVM\n{_jstack(pid)}"


def _children(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return sorted(found)


def _process(pid: int) -> str:
    try:
        process = Path(f"/proc/{pid}")
        command = process.joinpath("cmdline").read_text().replace("\0", " ")
        state = process.joinpath("stat").read_text().rpartition(")")[2].split()[0]
        waits = process.joinpath("wchan").read_text()
        threads = len(list(process.joinpath("task").iterdir()))
    except OSError as error:
        return f"{pid}: {error}"
    return f"{pid} {state} {threads} threads, in {waits}: {command}"


def _jstack(pid: int) -> str:
    try:
        done = subprocess.run(
            ["jstack", str(pid)], capture_output=True, text=True, timeout=_JSTACK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stdout + done.stderr
