"""Measures how long commits and elections take, from the events of a replica's host.

Owns the start and the end of each measurement. Depends only on the metrics that it updates.
Source: KIP-595, "Quorum Performance": local (fsync) and remote (high watermark) apart; "Metrics".
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter

from quorum_node.raft.messages import NO_LEADER
from quorum_node.raft.outputs import RoleChanged
from quorum_node.raft.roles import RoleName
from quorum_node.server.observing.metrics import PartitionMetrics


class CommitTimes:
    """Batches that this leader has appended, until they are durable here and committed."""

    def __init__(self, metrics: PartitionMetrics) -> None:
        self._fsync = metrics.histograms["local_fsync_latency_seconds"]
        self._replication = metrics.histograms["replication_latency_seconds"]
        self._not_durable: deque[tuple[int, float]] = deque()
        self._not_committed: deque[tuple[int, float]] = deque()

    def appended(self, end_offset: int, at: float) -> None:
        """A batch that ends at `end_offset` was appended at this time."""
        batch = (end_offset, at)
        self._not_durable.append(batch)
        self._not_committed.append(batch)

    def durable(self, end_offset: int) -> None:
        """Everything below `end_offset` is durable on the local disk."""
        _take(self._not_durable, end_offset, self._fsync.add)

    def committed(self, high_watermark: int) -> None:
        """The high watermark has advanced."""
        _take(self._not_committed, high_watermark, self._replication.add)

    def forget(self) -> None:
        """This replica no longer leads: stop measuring its batches, which another leader may commit."""
        self._not_durable.clear()
        self._not_committed.clear()


class ElectionTimes:
    """From becoming a candidate until a leader is known."""

    def __init__(self, metrics: PartitionMetrics) -> None:
        self._elections = metrics.histograms["election_latency_seconds"]
        self._began: float | None = None

    def role_changed(self, output: RoleChanged) -> None:
        """A new role, epoch or leader."""
        if output.role is RoleName.CANDIDATE:
            # A failed candidacy is part of the election that ends with a leader.
            self._began = self._began or perf_counter()
        elif self._began is not None and output.leader_id != NO_LEADER:
            self._elections.add(perf_counter() - self._began)
            self._began = None


def _take(batches: deque[tuple[int, float]], end_offset: int, add: Callable[[float], None]) -> None:
    while batches and batches[0][0] <= end_offset:
        add(perf_counter() - batches.popleft()[1])
