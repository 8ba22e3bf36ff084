"""When a snapshot is due, and how much of the log has become superfluous: arithmetic alone.

Owns the meaning of Kafka's four properties. Knows no clock, no files and no threads.
Source: KIP-630, "When to Snapshot" and "When to Delete Snapshots"; names and defaults as shipped in Kafka 4.x.

One rule is stricter than Kafka's: the log always reaches back to the snapshot before the newest one. So one
damaged snapshot costs nothing: the one before it and the log give the same state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class KnownSnapshot:
    """`timestamp_ms`: of the last batch that it stands for."""

    id: SnapshotId
    size_bytes: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What has happened since the newest snapshot (or, without one, since the start of the log)."""

    record_bytes: int
    since_last_ms: float
    new_records: bool
    is_only_copy: bool
    """There is one snapshot, and the log before it is gone."""


def is_due(policy: SnapshotPolicy, progress: Progress) -> bool:
    """Whether to write a snapshot now."""
    if not progress.new_records:
        return False
    if progress.is_only_copy or progress.record_bytes >= policy.max_record_bytes:
        return True
    return 0 < policy.max_interval_ms <= progress.since_last_ms


def obsolete_before(
    policy: SnapshotPolicy,
    snapshots: Sequence[KnownSnapshot],
    log_bytes_from: Callable[[int], int],
    now_ms: float,
) -> SnapshotId | None:
    """The snapshot at which the log may start; None: nothing has to go.

    `snapshots`: oldest first. `log_bytes_from`: size of the log from an offset on; 0 for all of it.
    """
    found: SnapshotId | None = None
    kept_bytes = log_bytes_from(0) + sum(each.size_bytes for each in snapshots)
    for index, candidate in enumerate(snapshots[:-1]):
        too_old = 0 <= policy.retention_ms < now_ms - candidate.timestamp_ms
        too_much = 0 <= policy.retention_bytes < kept_bytes
        if not too_old and not too_much:
            break
        found = candidate.id
        kept_bytes = log_bytes_from(found.end_offset)
        kept_bytes += sum(each.size_bytes for each in snapshots[index:])
    return found
