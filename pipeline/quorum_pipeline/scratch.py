"""The directory for all temporary files of a command's process, its Java process included. It is removed when the command ends, also
by an error, Ctrl-C or SIGTERM.

Owns when it is removed: after Java, which writes to it. Must not import Spark, which most commands do not need.
"""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

PREFIX = "quorum-pipeline-"
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C or SIGTERM has ended."""
END_SECONDS = 10.0
"""In seconds: how long a command may take to end after SIGTERM."""
_JAVA_SECONDS = 5.0
"""In seconds: how long Java may take to end. It only deletes its own temporary files."""
_POLL_SECONDS = 0.02
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def scratch_directory() -> Iterator[None]:
    """Make it the directory for temporary files of this process and of those that it starts. For the last thing that a process does:
    afterwards a signal ends it at once.

    Without a writable place for it there is none: most commands write no temporary files.
    """
    try:
        made = tempfile.mkdtemp(prefix=PREFIX)
    except OSError:
        yield
        return
    os.environ["TMPDIR"] = tempfile.tempdir = made
    try:
        _end_by_signals(made)
        yield
    finally:
        # The command has ended, and its exit code is known: nothing interrupts the removal, which takes a bounded time.
        for each in (signal.SIGINT, *_ENDING):
            signal.signal(each, signal.SIG_IGN)
        _await_java()
        shutil.rmtree(made, ignore_errors=True)
        # Python waits for threads, which may read a file that hangs.
        for each in (signal.SIGINT, *_ENDING):
            signal.signal(each, signal.SIG_DFL)


def java_option() -> str:
    """The option with which Java uses the same directory; empty without one."""
    made = tempfile.tempdir
    is_own = (
        made is not None and Path(made).name.startswith(PREFIX) and not any(map(str.isspace, made))
    )
    return f"-Djava.io.tmpdir={made}" if is_own else ""


def _end_by_signals(made: str) -> None:
    """End by a signal as by Ctrl-C, which removes temporary files. A signal that is ignored, as with `nohup`, stays ignored.

    A thread that hangs, for example in a read of a file, delays the end only for a limited time.
    """
    owner = os.getpid()

    def end_now() -> None:
        shutil.rmtree(made, ignore_errors=True)
        os._exit(INTERRUPTED)

    def end(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a process that was forked has nothing to remove
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        limit = threading.Timer(END_SECONDS, end_now)
        limit.daemon = True
        limit.start()
        raise KeyboardInterrupt

    for each in _ENDING:
        if signal.getsignal(each) is signal.SIG_DFL:
            signal.signal(each, end)


def _await_java() -> None:
    """Wait until Java has ended. It ends when its input is closed; a start that was interrupted may take longer."""
    found = _java_processes()
    if not found:
        return
    for each in found:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGTERM)
    deadline = time.monotonic() + _JAVA_SECONDS
    for each in found:
        while _is_running(each) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        if _is_running(each):
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def _java_processes() -> list[int]:
    """The child processes that are Spark's Java, or its script that starts it; none where the system does not tell."""
    found = []
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += [int(each) for each in file.read_text().split()]
    return [each for each in found if _is_spark(each)]


def _is_spark(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(b"SparkSubmit" in word or b"spark-submit" in word for word in words)


def _is_running(process: int) -> bool:
    try:
        ended, _ = os.waitpid(process, os.WNOHANG)
    except ChildProcessError:
        return False
    return ended == 0
