"""Client appends on the leader: grouped into batches, and answered after the commit.

Adaptive coalescing: appends that arrive in one turn of the loop, or while a batch is in flight, go into the next batch. A single client
never waits for others. An append is never split over batches (all or nothing, K595-29). Must not know what the records mean.

A controller decides on a state that includes appends which are not committed yet. It is informed of every outcome, in the order of the
log (`settle`); the caller of `submit` informs it of the appends.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from quorum_node.raft.errors import RaftError
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.partition.port import (
    MAX_BATCH_BYTES,
    Append,
    AppendDone,
    AppendOutcome,
    Committed,
    TooLarge,
)

MAX_BATCHES_IN_FLIGHT = 2

Propose = Callable[[int, tuple[bytes, ...]], None]
Settle = Callable[[Append, AppendOutcome], None]
"""Called with the outcome of every append, before the caller's callback. Commits are reported in the order of submission."""


class AppendQueue:
    """Appends that wait for the next batch, and batches that are proposed."""

    def __init__(self, propose: Propose, settle: Settle, metrics: PartitionMetrics) -> None:
        self._propose = propose
        self._settle = settle
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Append] = deque()
        self._queued_records = 0
        self._proposed: dict[int, list[Append]] = {}
        self._next_id = 1
        self._scheduled = False

    @property
    def queued_records(self) -> int:
        """Records that were accepted and are not in the log yet."""
        return self._queued_records

    def submit(self, values: tuple[bytes, ...], done: AppendDone) -> Append | None:
        """Append encoded metadata values; None if they don't fit into a batch.

        No callback is called before this returns; `done` is called exactly once.
        """
        size_bytes = sum(map(len, values))
        if size_bytes > MAX_BATCH_BYTES:
            self._loop.call_soon(done, TooLarge(size_bytes))
            return None
        append = Append(values, size_bytes, done, time.perf_counter())
        self._queue.append(append)
        self._queued_records += len(values)
        self._schedule()
        return append

    def committed(self, proposal_id: int, base_offset: int, leader_epoch: int) -> None:
        """The core committed a batch."""
        appends = self._proposed.pop(proposal_id)
        now = time.perf_counter()
        self._metrics.observe("commit_latency_seconds", now - appends[0].accepted_at)
        self._metrics.count_labelled("proposals", "committed", len(appends))
        self._metrics.count("records_committed", sum(len(each.values) for each in appends))
        self._schedule()
        for append in appends:
            end_offset = base_offset + len(append.values)
            outcome = Committed(base_offset, end_offset, leader_epoch)
            self._settle(append, outcome)
            append.done(outcome)
            base_offset = end_offset

    def failed(self, proposal_id: int, error: RaftError) -> None:
        """The core refused a batch, or lost leadership before it was committed.

        Later appends may have been decided on the state that this batch would have produced, so they fail with the same error.
        """
        appends = self._proposed.pop(proposal_id)
        while self._queue:
            appends.append(self._queue.popleft())
        self._queued_records = 0
        self._metrics.count_labelled("proposals", error.name.lower(), len(appends))
        for append in appends:
            self._settle(append, error)
            append.done(error)

    def _schedule(self) -> None:
        # In the next turn of the loop, so that everything that became readable in this turn shares the batch.
        if self._queue and not self._scheduled and len(self._proposed) < MAX_BATCHES_IN_FLIGHT:
            self._scheduled = True
            self._loop.call_soon(self._propose_next)

    def _propose_next(self) -> None:
        self._scheduled = False
        values: list[bytes] = []
        appends: list[Append] = []
        total_bytes, queue = 0, self._queue
        while queue and (not appends or total_bytes + queue[0].size_bytes <= MAX_BATCH_BYTES):
            append = queue.popleft()
            values += append.values
            appends.append(append)
            total_bytes += append.size_bytes
        if not appends:
            return
        proposal_id = self._next_id
        self._next_id += 1
        self._proposed[proposal_id] = appends
        self._queued_records -= len(values)
        self._metrics.count("records_appended", len(values))
        self._propose(proposal_id, tuple(values))
        self._schedule()
