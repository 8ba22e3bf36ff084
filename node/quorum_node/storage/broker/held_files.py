"""Keeps files of a log open for long-running readers, even if the log is closed meanwhile.

Owns when they are closed: at once without readers, else with the last reader. A descriptor that is
closed too early could refer to another file at the time of the next read.
"""

import threading
from collections.abc import Sequence

from quorum_node.storage.broker.data_segment import DataSegment


class HeldFiles:
    """Context manager for a reader, on any thread. `is_closed`: the log was closed, also for readers."""

    __slots__ = ("_holders", "_lock", "_waiting", "is_closed")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._waiting: list[DataSegment] = []
        self.is_closed = False

    def __enter__(self) -> None:
        with self._lock:
            self._holders += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._holders -= 1
            due = [] if self._holders else self._waiting
            self._waiting = self._waiting if self._holders else []
        for segment in due:
            segment.close()

    @property
    def are_held(self) -> bool:
        """Whether there are readers."""
        return self._holders > 0

    def close(self, segments: Sequence[DataSegment]) -> None:
        """Close the files once there are no readers."""
        with self._lock:
            self.is_closed = True
            if self._holders:
                self._waiting += segments
                return
        for segment in segments:
            segment.close()
