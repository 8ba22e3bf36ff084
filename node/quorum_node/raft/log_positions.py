"""How far a replica's log reaches: where it starts, ends, is durable and is committed.

Owns these numbers: no other module assigns them. Must not know why the log grows, is cut back or is replaced: the callers decide, and
put out what the driver has to do. Source: KIP-595, "High watermark"; KIP-630 (a log that begins behind a snapshot).
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
        """The snapshot that the log begins behind, and the newest one that is verified and durable."""
        self.log_end = log.end_offset
        self.durable_end = log.end_offset
        self.high_watermark = min(state.applied_offset, log.end_offset)
        if log.snapshot is not None:
            self.high_watermark = max(self.high_watermark, log.snapshot.end_offset)
            if log.snapshot_voters is not None:
                self.kraft_version = log.snapshot_kraft_version

    def log_grew(self, epoch: int, base_offset: int, end_offset: int) -> None:
        """A batch of `epoch` was appended behind the end."""
        self.epochs.append(epoch, base_offset)
        self.log_end = end_offset

    def log_was_cut(self, end_offset: int) -> None:
        """Everything from there on is gone."""
        self.log_end = end_offset
        self.durable_end = min(self.durable_end, end_offset)
        self.epochs.truncate(end_offset)

    def log_is_durable(self, end_offset: int) -> None:
        """A flush up to there came back."""
        self.durable_end = max(self.durable_end, end_offset)

    def is_committed(self, end_offset: int) -> None:
        """The high watermark moves to there."""
        self.high_watermark = end_offset

    def uses_kraft_version(self, level: int) -> None:
        """A record or a snapshot says so."""
        self.kraft_version = level

    def has_snapshot(self, id: SnapshotId) -> None:
        """It is verified, durable, and newer than the one before."""
        self.snapshot = id

    def log_starts_behind(self, id: SnapshotId) -> None:
        """What was before is deleted."""
        self.start = id
        self.epochs.delete_before(id)

    def log_was_replaced(self, id: SnapshotId) -> None:
        """By a snapshot: the log is empty, and begins behind it."""
        self.start = id
        self.epochs = EpochStarts((), id)
        self.log_end = self.durable_end = self.high_watermark = id.end_offset
