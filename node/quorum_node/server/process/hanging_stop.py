"""A limit for the last syncs of a stop. They run on the loop, so that a disk that hangs would keep the process for ever."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from quorum_node.exit_codes import TerminationReason
from quorum_node.server.ending.termination import Termination, exit_now


@contextmanager
def within(seconds: float, termination: Termination) -> Iterator[None]:
    """End the process as with a failed disk if the context takes longer. There is no latch: the disk may only be slow."""

    def end() -> None:
        why = f"the disk hangs: at the stop its logs were not synced within {seconds:g} s"
        exit_now(termination.record(TerminationReason.STORAGE_FAILED, why, latch=False))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
