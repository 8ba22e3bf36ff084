"""Decides when a snapshot is due, and which part of the log can be deleted: calculations only.

Owns the meaning of Kafka's four properties. Must not know clocks, files and threads.
Source: KIP-630, "When to Snapshot" and "When to Delete Snapshots"; names and defaults as shipped in Kafka 4.x.

One rule is stricter than Kafka's: the log always reaches back to the snapshot before the newest one. So a damaged snapshot can be
replaced: the previous one and the log give the same state.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.records.snapshot_id import SnapshotId


@dataclass(frozen=True, slots=True)
class KnownSnapshot:
    """`timestamp_ms`: of the last batch that the snapshot includes, in milliseconds since 1970."""

    id: SnapshotId
    size_bytes: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What has happened since the newest snapshot (or since the start of the log, if there is none)."""

    record_bytes: int
    since_last_ms: float
    new_records: bool
    is_only_copy: bool
    """Whether there is exactly one snapshot, and the log before it was deleted."""


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
    """The snapshot at whose end the log may start; None if nothing has to be deleted.

    `snapshots`: oldest first. `log_bytes_from`: bytes of the log from an offset on; 0 for the complete log.
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
