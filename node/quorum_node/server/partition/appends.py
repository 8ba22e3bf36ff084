"""Client appends on the leader: many small ones become few batches, each answered after commit.

Adaptive coalescing: what arrives in one turn of the loop, or while a batch is on its way, goes into
the next batch; a lone client never waits for company. An append stays whole within one batch (all
or nothing, K595-29). Knows nothing of what the records mean.

A controller decides on a state that counts appends which are not committed yet. It hears of every
append, whoever makes it, and of every outcome, in the order of the log.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from quorum_node.raft.errors import RaftError
from quorum_node.server.observing.metrics import PartitionMetrics

MAX_BATCH_BYTES = 4 << 20
MAX_BATCHES_IN_FLIGHT = 2


@dataclass(frozen=True, slots=True)
class Committed:
    """The records are at base_offset <= o < end_offset, appended in `leader_epoch`."""

    base_offset: int
    end_offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The records don't fit into one batch."""

    size_bytes: int


AppendOutcome = Committed | TooLarge | RaftError
AppendDone = Callable[[AppendOutcome], None]
Propose = Callable[[int, tuple[bytes, ...]], None]


@dataclass(slots=True, eq=False)
class Append:
    """One append on its way; `done` is called exactly once, when `outcome` is known."""

    values: tuple[bytes, ...]
    size_bytes: int
    done: AppendDone
    accepted_at: float


class AppendWatcher(Protocol):
    """Hears of every append that fits, and then of its outcome before the caller does."""

    def accepted(self, append: Append) -> None:
        """It will go into the log behind all that were accepted before it, or fail."""

    def settled(self, append: Append, outcome: AppendOutcome) -> None:
        """It is committed or failed. Commits are told in the order of `accepted`."""


class AppendQueue:
    """Appends that wait, and those that are proposed. `watcher` may be set once, at the start."""

    def __init__(self, propose: Propose, metrics: PartitionMetrics) -> None:
        self.watcher: AppendWatcher | None = None
        self._propose = propose
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

    def submit(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append encoded metadata values; `done` is called exactly once, never from within."""
        size_bytes = sum(map(len, values))
        if size_bytes > MAX_BATCH_BYTES:
            self._loop.call_soon(done, TooLarge(size_bytes))
            return
        append = Append(values, size_bytes, done, time.perf_counter())
        self._queue.append(append)
        self._queued_records += len(values)
        if self.watcher is not None:
            self.watcher.accepted(append)
        self._schedule()

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
            self._settle(append, Committed(base_offset, end_offset, leader_epoch))
            base_offset = end_offset

    def failed(self, proposal_id: int, error: RaftError) -> None:
        """The core refused a batch, or lost leadership before it was committed.

        What waits behind it may have been decided on the state that it would have made, so it
        fails with the same error.
        """
        appends = self._proposed.pop(proposal_id)
        while self._queue:
            appends.append(self._queue.popleft())
        self._queued_records = 0
        self._metrics.count_labelled("proposals", error.name.lower(), len(appends))
        for append in appends:
            self._settle(append, error)

    def _settle(self, append: Append, outcome: AppendOutcome) -> None:
        if self.watcher is not None:
            self.watcher.settled(append, outcome)
        append.done(outcome)

    def _schedule(self) -> None:
        # Through the loop, so that everything that became readable in this turn shares the batch.
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
