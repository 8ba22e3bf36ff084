"""Opens a replica with snapshots: finds a valid one, and reconciles it with the log.

Owns these two decisions. Must not know the content of snapshots.
A snapshot is committed state. So its epoch is that of the record before its end in every log that
reaches that offset. If a log differs, or ends before it, the process was killed while the snapshot
was to replace the log (or the log lost an unacknowledged tail): the replacement is completed.
Records that are not in the snapshot and known to be committed are never dropped this way.
"""

from dataclasses import dataclass

from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.snapshots import SnapshotStore


@dataclass(frozen=True, slots=True)
class CompleteSnapshot:
    """A fully verified snapshot."""

    id: SnapshotId
    bounds: SnapshotBounds


def newest_complete(store: SnapshotStore) -> tuple[CompleteSnapshot | None, tuple[str, ...]]:
    """The newest undamaged snapshot; damaged newer ones are set aside and reported."""
    notes: list[str] = []
    while (latest := store.latest()) is not None:
        try:
            return CompleteSnapshot(latest, store.verify(latest)), tuple(notes)
        except CorruptSnapshot as error:
            aside = store.set_aside(latest)
            notes.append(f"{error}; it was set aside as {aside.name} and is not used")
    return None, tuple(notes)


def finish_reset(log: SegmentedLog, id: SnapshotId, applied_offset: int) -> tuple[str, ...]:
    """Restart the log at the snapshot if it does not continue from it. Raises StorageFailure."""
    if log.epoch_before(id.end_offset) == id.epoch or id.end_offset == 0:
        return ()
    if log.end_offset > id.end_offset and applied_offset > id.end_offset:
        raise StorageFailure(
            f"the log contradicts snapshot {id}, although offset {applied_offset} was committed and applied: one of the two belongs to another replica"
        )
    text = f"the log (offsets {log.start_offset} to {log.end_offset}) does not continue from snapshot {id}"
    log.reset_to(id)
    return (f"{text}: it was replaced by the snapshot, which holds everything committed below it",)
