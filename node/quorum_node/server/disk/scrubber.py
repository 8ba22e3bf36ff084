"""Reads all files of one replica repeatedly, at a bounded rate, to find damage early.

Owns the order and the rate: every segment up to its synced end (the active one too), then quorum-state, then the snapshots; then a pause,
and again. Must not know any format. Runs on a thread of its own; results are reported on the loop's thread.

Damage in a segment or in quorum-state stops the replica as with a failed disk: data that it acknowledged is lost. A damaged snapshot is
set aside, and a new one is written from memory: nothing is lost.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.scrub import Pause, scrub
from quorum_node.storage.segment import Segment

_ROUND_SECONDS = 10.0
"""In seconds, between two rounds."""
_FIRST_ROUND_BYTES_PER_SECOND = 32 << 20
"""Rate of the first round. The start does not check sealed segments, so the first round is faster."""


class ScrubbedLog(Protocol):
    """The methods of the log that are used here."""

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, oldest first."""


class Scrubber:
    """`scrub_snapshot` reads a snapshot on the calling thread and handles damage; `fail_storage` stops the replica."""

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
        """Stop, also in the middle of a round."""
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
        """After this number of bytes was read, wait as long as the rate requires. False: the scrubber was closed."""
        self._on_loop(lambda: self._metrics.count("scrubbed_bytes", size_bytes))
        rate = max(self._rate, _FIRST_ROUND_BYTES_PER_SECOND) if self._haste else self._rate
        return not self._ended.wait(size_bytes / rate)

    def _on_loop(self, act: Callable[[], None]) -> None:
        if not call_on_loop(self._loop, act):
            self._ended.set()
