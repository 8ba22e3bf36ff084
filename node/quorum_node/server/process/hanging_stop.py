"""A limit for the last syncs of a stop. They run on the loop, so that a disk that hangs would keep the process for ever.

A stop says nothing about the disk, which may only be slow. The process therefore ends as if it had been killed during the stop: without a
reason that others would take for a failed disk, and without a latch.
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import structlog

KILLED = 128 + signal.SIGKILL
"""The exit code that the kubelet shows for a process that it has killed."""

_LAST_WORDS_SECONDS = 1.0
"""In seconds: how long the last line of the log may take. Standard output may be on the same disk."""

_LOG = structlog.get_logger("quorum_node")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """End the process if the context takes longer. Its data is as durable as after a crash."""

    def end() -> None:
        last_words = threading.Thread(target=_log, args=(seconds,), daemon=True)
        last_words.start()
        last_words.join(_LAST_WORDS_SECONDS)
        # Not a real SIGKILL: the kernel ignores one that the first process of a container sends to itself.
        os._exit(KILLED)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _log(seconds: float) -> None:
    with suppress(OSError):
        _LOG.error(
            f"the disk hangs: at the stop its logs were not synced within {seconds:g} s. The process ends as if killed, and"
            " the disk does not count as failed",
            exitCode=KILLED,
        )
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
