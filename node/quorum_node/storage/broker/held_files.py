"""Files of a log that stay open while a long reader is at work, although the log is closed meanwhile.

Owns when they are closed: at once if nobody holds them, else with the last holder. A descriptor that is closed beside a reader
may be another file's by the time of the next read.
"""

import threading
from collections.abc import Sequence

from quorum_node.storage.broker.data_segment import DataSegment


class HeldFiles:
    """Use as a context manager around the reading, on any thread. `is_closed`: the log is over, also for holders."""

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
        """Whether somebody reads."""
        return self._holders > 0

    def close(self, segments: Sequence[DataSegment]) -> None:
        """Close them, at the latest when nobody reads any more."""
        with self._lock:
            self.is_closed = True
            if self._holders:
                self._waiting += segments
                return
        for segment in segments:
            segment.close()
