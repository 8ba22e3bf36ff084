"""Client appends on the leader: many small ones become few batches, each answered after commit.

Adaptive coalescing: what arrives in one turn of the loop, or while a batch is on its way, goes into
the next batch; a lone client never waits for company. An append stays whole within one batch (all
or nothing, K595-29). Knows nothing of what the records mean.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from quorum_node.raft.errors import RaftError
from quorum_node.server.metrics import PartitionMetrics

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


class AppendQueue:
    """Appends that wait, and those that are proposed."""

    def __init__(self, propose: Propose, metrics: PartitionMetrics) -> None:
        self._propose = propose
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[tuple[bytes, ...], int, AppendDone, float]] = deque()
        self._proposed: dict[int, tuple[float, list[tuple[int, AppendDone]]]] = {}
        self._next_id = 1
        self._scheduled = False

    def submit(self, values: tuple[bytes, ...], done: AppendDone) -> None:
        """Append encoded metadata values; `done` is called exactly once, never from within."""
        size_bytes = sum(map(len, values))
        if size_bytes > MAX_BATCH_BYTES:
            self._loop.call_soon(done, TooLarge(size_bytes))
            return
        self._queue.append((values, size_bytes, done, time.perf_counter()))
        self._schedule()

    def committed(self, proposal_id: int, base_offset: int, leader_epoch: int) -> None:
        """The core committed a batch."""
        accepted_at, parts = self._proposed.pop(proposal_id)
        self._metrics.observe("commit_latency_seconds", time.perf_counter() - accepted_at)
        self._metrics.count_labelled("proposals", "committed", len(parts))
        self._schedule()
        for count, done in parts:
            end_offset = base_offset + count
            done(Committed(base_offset, end_offset, leader_epoch))
            base_offset = end_offset

    def failed(self, proposal_id: int, error: RaftError) -> None:
        """The core refused a batch, or lost leadership before it was committed."""
        _, parts = self._proposed.pop(proposal_id)
        self._metrics.count_labelled("proposals", error.name.lower(), len(parts))
        self._schedule()
        for _, done in parts:
            done(error)

    def _schedule(self) -> None:
        # Through the loop, so that everything that became readable in this turn shares the batch.
        if self._queue and not self._scheduled and len(self._proposed) < MAX_BATCHES_IN_FLIGHT:
            self._scheduled = True
            self._loop.call_soon(self._propose_next)

    def _propose_next(self) -> None:
        self._scheduled = False
        values: list[bytes] = []
        parts: list[tuple[int, AppendDone]] = []
        total_bytes, queue = 0, self._queue
        accepted_at = queue[0][3] if queue else 0.0
        while queue and (not parts or total_bytes + queue[0][1] <= MAX_BATCH_BYTES):
            some, size_bytes, done, _ = queue.popleft()
            values += some
            parts.append((len(some), done))
            total_bytes += size_bytes
        if not parts:
            return
        proposal_id = self._next_id
        self._next_id += 1
        self._proposed[proposal_id] = (accepted_at, parts)
        self._metrics.count("records_appended", len(values))
        self._propose(proposal_id, tuple(values))
        self._schedule()
