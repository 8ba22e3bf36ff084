"""Offsets of a replica's log: start, end, durable end, high watermark.

Owns these numbers: no other module assigns them. Must not know why the log is appended, truncated
or replaced: the callers decide, and emit the outputs. Source: KIP-595, "High watermark"; KIP-630 (a
log that begins after a snapshot).
"""

from quorum_node.raft.log_state import EpochStarts, LogState
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.snapshot_id import SnapshotId


class LogPositions:
    """Offsets are exclusive ends."""

    def __init__(self, state: QuorumState, log: LogState) -> None:
        self.epochs = EpochStarts(log.epoch_starts, log.start)
        self.kraft_version = 1
        self.start, self.snapshot = log.start, log.snapshot
        """The snapshot at the start of the log, and the newest one that is verified and durable."""
        self.log_end = log.end_offset
        self.durable_end = log.end_offset
        self.high_watermark = min(state.applied_offset, log.end_offset)
        if log.snapshot is not None:
            self.high_watermark = max(self.high_watermark, log.snapshot.end_offset)
            if log.snapshot_voters is not None:
                self.kraft_version = log.snapshot_kraft_version

    def note_append(self, epoch: int, base_offset: int, end_offset: int) -> None:
        """A batch of `epoch` was appended."""
        self.epochs.append(epoch, base_offset)
        self.log_end = end_offset

    def note_truncation(self, end_offset: int) -> None:
        """The log was truncated to this offset."""
        self.log_end = end_offset
        self.durable_end = min(self.durable_end, end_offset)
        self.epochs.truncate(end_offset)

    def note_durable(self, end_offset: int) -> None:
        """A flush up to this offset completed."""
        self.durable_end = max(self.durable_end, end_offset)

    def is_committed(self, end_offset: int) -> None:
        """The high watermark moved to this offset."""
        self.high_watermark = end_offset

    def uses_kraft_version(self, level: int) -> None:
        """A record or a snapshot set kraft.version."""
        self.kraft_version = level

    def has_snapshot(self, id: SnapshotId) -> None:
        """A newer snapshot is verified and durable."""
        self.snapshot = id

    def note_log_start(self, id: SnapshotId) -> None:
        """Records before the snapshot's end were deleted."""
        self.start = id
        self.epochs.delete_before(id)

    def note_reset(self, id: SnapshotId) -> None:
        """A snapshot replaced the log: it is empty and begins at the snapshot's end."""
        self.start = id
        self.epochs = EpochStarts((), id)
        self.log_end = self.durable_end = self.high_watermark = id.end_offset
