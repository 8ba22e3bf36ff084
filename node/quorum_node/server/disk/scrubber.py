"""Reads again what one replica has on its disk, in turn and for as long as it runs, at a bounded rate.

Owns the order and the pace: every segment as far as it was synced, the active one too, then quorum-state, then the
snapshots; then a pause, and again from the beginning. Knows no format. Runs on a thread of its own; what it finds
is told on the loop's thread.

Bits that turn over in a segment or in quorum-state end the replica as a failed disk: what it acknowledged is not there
any more. A damaged snapshot is set aside, and another one is written from memory: nothing is lost by it.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.scrub import Pause, scrub
from quorum_node.storage.segment import Segment

_ROUND_SECONDS = 10.0
"""Between two rounds."""
_FIRST_ROUND_BYTES_PER_SECOND = 32 << 20
"""The start takes sealed segments on trust, so the first round makes haste."""


class ScrubbedLog(Protocol):
    """The part of the log that is read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first."""


class Scrubber:
    """`scrub_snapshot` reads one, on the calling thread, and deals with damage; `fail_storage` ends the replica."""

    def __init__(
        self,
        log: ScrubbedLog,
        state_file: QuorumStateFile,
        snapshots: Callable[[], Sequence[SnapshotId]],
        scrub_snapshot: Callable[[SnapshotId, Pause], None],
        fail_storage: Callable[[StorageFailure | DiskFull], None],
        metrics: PartitionMetrics,
        *,
        bytes_per_second: int,
    ) -> None:
        self._log = log
        self._state_file = state_file
        self._snapshots = snapshots
        self._scrub_snapshot = scrub_snapshot
        self._fail_storage = fail_storage
        self._metrics = metrics
        self._rate = bytes_per_second
        self._haste = True
        self._loop = asyncio.get_running_loop()
        self._ended = threading.Event()

    def start(self) -> None:
        """Begin now."""
        threading.Thread(target=self._run, name="log-scrub", daemon=True).start()

    def close(self) -> None:
        """Ends in the middle of a round."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            failure = scrub(list(self._log.segments), self._read) or self._scrub_state()
            if failure is not None:
                self._on_loop(partial(self._fail_storage, failure))
                return
            for each in self._snapshots():
                if not self._ended.is_set():
                    self._scrub_snapshot(each, self._read)
            self._haste = False
            self._on_loop(lambda: self._metrics.count("scrub_rounds"))
            self._ended.wait(_ROUND_SECONDS)

    def _scrub_state(self) -> StorageFailure | DiskFull | None:
        try:
            self._state_file.check()
        except (StorageFailure, DiskFull) as failure:
            return failure
        return None

    def _read(self, size_bytes: int) -> bool:
        """So much was read: wait as long as the rate asks for. False: it is over."""
        self._on_loop(lambda: self._metrics.count("scrubbed_bytes", size_bytes))
        rate = max(self._rate, _FIRST_ROUND_BYTES_PER_SECOND) if self._haste else self._rate
        return not self._ended.wait(size_bytes / rate)

    def _on_loop(self, act: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(act)
        except RuntimeError:
            self._ended.set()  # the loop is closed: the process ends
